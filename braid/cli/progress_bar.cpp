#include "braid/cli/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "braid/base/text.h"

namespace braid::cli {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

int64_t columns_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(), begins_character);
}

// The first `columns` characters of `text`.
std::string cut(const std::string& text, int64_t columns) {
  int64_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (begins_character(text[i]) && seen++ == columns) return text.substr(0, i);
  }
  return text;
}

// Rounded down, so that "100%" means done.
std::string percent_text(double fraction) {
  return std::to_string(static_cast<int>(std::floor(100 * std::clamp(fraction, 0.0, 1.0) + 1e-9))) + "%";
}

std::string bar_text(double fraction, int64_t width) {
  const auto full =
      static_cast<size_t>(std::floor(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(width)));
  return " [" + std::string(full, '#') + std::string(static_cast<size_t>(width) - full, '.') + "]";
}

}  // namespace

std::string duration_text(std::chrono::seconds duration) {
  const auto two_digits = [](int64_t number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  const int64_t seconds = std::max<int64_t>(0, duration.count());
  const int64_t minutes = seconds / 60;
  const std::string tail = ":" + two_digits(seconds % 60);
  if (minutes < 60) return std::to_string(minutes) + tail;
  return std::to_string(minutes / 60) + ":" + two_digits(minutes % 60) + tail;
}

std::string progress_line(const ProgressState& state, int64_t columns) {
  constexpr int64_t kWidestBar = 30;
  constexpr int64_t kNarrowestBar = 5;
  std::string head = state.label;
  if (state.fraction) {
    const std::string percent = percent_text(*state.fraction);
    head += std::string(5 - percent.size(), ' ') + percent;
  }
  std::string tail;
  if (!state.text.empty()) tail += " " + state.text;
  if (state.left) tail += " eta " + duration_text(*state.left);
  const int64_t room = std::max<int64_t>(0, columns - 1);
  const int64_t width = std::min(kWidestBar, room - columns_of(head) - columns_of(tail) - 3);
  const bool has_bar = state.fraction && width >= kNarrowestBar;
  return cut(head + (has_bar ? bar_text(*state.fraction, width) : "") + tail, room);
}

std::string progress_plain_line(const ProgressState& state) {
  std::string text = state.label + ":";
  std::string_view before = " ";
  const auto add = [&](const std::string& part) { text += std::string(std::exchange(before, ", ")) + part; };
  if (state.fraction) add(percent_text(*state.fraction));
  if (!state.text.empty()) add(state.text);
  if (state.left) add("eta " + duration_text(*state.left));
  return text;
}

ProgressBar::ProgressBar(std::ostream& stream, ProgressOptions options)
    : stream_(stream), options_(std::move(options)), constructed_(options_.now()) {}

ProgressBar::~ProgressBar() {
  try {
    erase();
  } catch (...) {  // the stream throws; there is nowhere to report it
  }
}

std::optional<std::chrono::seconds> ProgressBar::time_left(TimePoint now,
                                                           std::optional<double> fraction) const {
  constexpr std::chrono::seconds kTooEarly{1};
  constexpr double kLongest = 1e8;  // three years
  if (!fraction || !begin_ || now - begin_->time < kTooEarly) return std::nullopt;
  const double done = *fraction - begin_->fraction;
  if (!(done > 0)) return std::nullopt;
  const std::chrono::duration<double> elapsed = now - begin_->time;
  const double left = elapsed.count() / done * std::max(0.0, 1 - *fraction);
  if (!(left < kLongest)) return std::nullopt;
  return std::chrono::seconds(std::llround(left));
}

int64_t ProgressBar::width() const {
  const auto now = options_.columns_now ? options_.columns_now() : std::nullopt;
  return now.value_or(*options_.columns);
}

void ProgressBar::update(std::optional<double> fraction, std::string_view text) {
  const TimePoint now = options_.now();
  if (fraction && !begin_) begin_ = {now, *fraction};
  if (options_.columns) {
    if (last_shown_ && now - *last_shown_ < options_.redraw_interval) return;
  } else if (now - last_shown_.value_or(constructed_) < options_.line_interval) {
    return;
  }
  last_shown_ = now;
  const ProgressState state = {.label = options_.label,
                               .fraction = fraction,
                               .text = std::string(text),
                               .left = time_left(now, fraction)};
  if (options_.columns) {
    shown_ = progress_line(state, width());
    stream_ << kEraseLine << shown_ << std::flush;
  } else {
    stream_ << progress_plain_line(state) << "\n" << std::flush;
  }
}

void ProgressBar::print(std::string_view lines) {
  if (shown_.empty()) {
    stream_ << lines << std::flush;
  } else {
    stream_ << kEraseLine << lines << shown_ << std::flush;
  }
}

void ProgressBar::erase() {
  if (shown_.empty()) return;
  shown_.clear();
  last_shown_.reset();
  stream_ << kEraseLine << std::flush;
}

void ProgressBar::finish(std::string_view text) {
  const ProgressState state = {
      .label = options_.label, .fraction = 1.0, .text = std::string(text), .left = {}};
  if (options_.columns) {
    stream_ << kEraseLine << progress_line(state, width()) << "\n" << std::flush;
  } else if (last_shown_) {
    stream_ << progress_plain_line(state) << "\n" << std::flush;
  }
  shown_.clear();
  last_shown_.reset();
}

}  // namespace braid::cli
