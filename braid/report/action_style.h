// How the actions of a schedule and the exchanges that they start look in drawings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "braid/report/svg.h"
#include "braid/schedule/schedule.h"

namespace braid::report {

struct Style {
  Colour colour;
  std::string_view name;
};

/// Nothing for ops that are not drawn. The colours are far enough apart, the light shades of later chunks
/// included, for people with any of the three kinds of colour blindness. Waits for an exchange have its
/// colour, lighter.
std::optional<Style> style_of(schedule::Op op);

/// The first chunk has the full colour, the last the lightest shade.
Colour shade(const Colour& colour, int32_t chunk, int32_t chunks);

/// " chunk 1 segment 2": what of a rank an action works on, where there is a choice.
std::string part_text(const schedule::Schedule& schedule, const schedule::Action& action);

}  // namespace braid::report
