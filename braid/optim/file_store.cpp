// The states in a memory-mapped file, which one thread reads ahead and writes behind.
#include <ATen/ATen.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "braid/base/error.h"
#include "braid/optim/staged_store.h"
#include "braid/optim/state_file.h"
#include "braid/optim/state_store.h"

namespace braid::optim {
namespace {

enum class Place {
  kFile,    ///< in the file alone, or on the way there
  kComing,  ///< a read is queued or running
  kMemory,  ///< read ahead
  kTaken,
};

struct FileSegment {
  FileSegment(const StateFile& file, int64_t offset, int64_t bytes) : range(file, offset, bytes) {}
  StateFile::Range range;
  SegmentStates states;         // over the range, and a master that is not offloaded
  Place place = Place::kTaken;  // guarded by FileStore::mutex_
};

/// Jobs of the thread run in the order in which they were queued. While segment i is updated, the order is:
/// read i + 1, start to write i, finish writing i - 1, read i + 2. Segment i + 2 is therefore read only after
/// i - 1 has left memory, which bounds the segments in memory by three: i, i + 1 and one that is being read
/// or written.
class FileStore final : public StateStore {
 public:
  explicit FileStore(const FileStoreOptions& options) : file_(options.directory, options.rank) {
    file_.reserve(options.total_bytes);
    io_thread_ = std::jthread([this](const std::stop_token& stop) { run_jobs(stop); });
  }

  void add(SegmentStates states) override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return failure_ != nullptr || unfinished_jobs_ == 0; });
      throw_failure();
    }
    const StatesSize size = size_of_moved(states);
    const int64_t bytes = size.padded_bytes();
    FileSegment& segment = segments_.emplace_back(file_, file_.append(bytes), bytes);
    const auto place = [&](const at::Tensor& given, int64_t index) {
      at::Tensor in_file = at::from_blob(segment.range.memory().data() + index * size.padded_tensor_bytes(),
                                         given.sizes(), given.options().device(at::kCPU));
      return in_file.copy_(given);
    };
    segment.states.exp_avg = place(states.exp_avg, 0);
    segment.states.exp_avg_sq = place(states.exp_avg_sq, 1);
    segment.states.master = size.has_master ? place(states.master, 2) : states.master;
    give_back(segments_.size() - 1);
  }

  void expect(size_t index) override {
    FileSegment& segment = segments_.at(index);
    const std::lock_guard lock(mutex_);
    if (segment.place != Place::kFile || failure_ != nullptr) return;
    segment.place = Place::kComing;
    push({.kind = Job::kRead, .segment = &segment});
  }

  SegmentStates& take(size_t index) override {
    FileSegment& segment = segments_.at(index);
    expect(index);
    {
      std::unique_lock lock(mutex_);
      require<InternalError>(segment.place != Place::kTaken, "segment ", index,
                             " of the states is taken twice");
      changed_.wait(lock, [&] { return failure_ != nullptr || segment.place == Place::kMemory; });
      throw_failure();
      segment.place = Place::kTaken;
    }
    if (index + 1 < segments_.size()) expect(index + 1);
    check(segment);
    return segment.states;
  }

  void give_back(size_t index) override {
    FileSegment& segment = segments_.at(index);
    check(segment);
    const std::lock_guard lock(mutex_);
    require<InternalError>(segment.place == Place::kTaken, "segment ", index, " of the states was not taken");
    throw_failure();
    segment.place = Place::kFile;
    push({.kind = Job::kWrite, .segment = &segment});
  }

 private:
  struct Job {
    enum Kind { kRead, kWrite } kind;
    FileSegment* segment;
  };

  // The caller holds mutex_.
  void push(Job job) {
    jobs_.push_back(job);
    ++unfinished_jobs_;
    changed_.notify_all();
  }
  void throw_failure() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

  /// Throws, now and from every later call, if accesses to the segment have failed or would fail.
  void check(const FileSegment& segment) {
    try {
      segment.range.check();
    } catch (const std::exception&) {
      fail(std::current_exception());
      throw;
    }
  }

  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::move(error);
    changed_.notify_all();
  }

  void run_jobs(const std::stop_token& stop) {
    // What the segments' writes would still do is of no use to anyone once the store is destroyed.
    try {
      while (!stop.stop_requested()) run_next(stop);
    } catch (...) {
      fail(std::current_exception());
    }
  }

  void run_next(const std::stop_token& stop) {
    Job job{};
    {
      std::unique_lock lock(mutex_);
      if (jobs_.empty() && writing_ == nullptr) changed_.wait(lock, stop, [&] { return !jobs_.empty(); });
      if (!jobs_.empty()) {
        job = jobs_.front();
        jobs_.pop_front();
      }
    }
    if (job.segment == nullptr) {
      finish_writing();
      return;
    }
    if (job.kind == Job::kRead) {
      job.segment->range.read();
    } else {
      // Started first, so that the disk always has work.
      job.segment->range.start_writing();
      finish_writing();
      writing_ = job.segment;
    }
    const std::lock_guard lock(mutex_);
    if (job.kind == Job::kRead) job.segment->place = Place::kMemory;
    --unfinished_jobs_;
    changed_.notify_all();
  }

  void finish_writing() {
    if (writing_ != nullptr) std::exchange(writing_, nullptr)->range.finish_writing();
  }

  StateFile file_;
  std::deque<FileSegment> segments_;  // used by the caller alone, which never moves or removes one

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> jobs_;
  int unfinished_jobs_ = 0;  // queued or running
  std::exception_ptr failure_;

  FileSegment* writing_ = nullptr;  // used by the thread alone
  std::jthread io_thread_;          // last: it ends before what it uses
};

}  // namespace

std::unique_ptr<StateStore> make_file_store(const FileStoreOptions& options) {
  auto file = std::make_unique<FileStore>(options);
  if (options.device.is_cpu()) return file;
  return make_staged_store({.device = options.device, .host = HostMemory::kPageable}, std::move(file));
}

}  // namespace braid::optim
