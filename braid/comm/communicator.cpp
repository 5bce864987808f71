#include "braid/comm/communicator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "braid/base/checked.h"
#include "braid/base/error.h"
#include "braid/comm/operation.h"

namespace braid::comm {
namespace {

constexpr std::array kNames = {"all_reduce_sum", "reduce_scatter_sum", "broadcast", "all_gather", "barrier"};

// The number of elements, of `numel`, that member `index` of `n` sums.
int64_t shard_numel(int64_t numel, int64_t n, int64_t index) {
  return numel / n + (index < numel % n ? 1 : 0);
}

// sum = rows[0] + rows[1] + ... of at least two rows, where `sum` may be rows[0] itself.
void sum_rows(const at::Tensor& rows, at::Tensor sum) {
  // One addition rounds once, also in 16 bits.
  const bool is_narrow = rows.size(0) > 2 && sum.is_floating_point() && sum.element_size() < 4;
  at::Tensor total = is_narrow ? at::empty(sum.sizes(), sum.options().dtype(at::kFloat)) : sum;
  at::add_out(total, is_narrow ? rows[0].to(at::kFloat) : rows[0], rows[1]);
  for (int64_t i = 2; i < rows.size(0); ++i) total.add_(rows[i]);
  if (is_narrow) sum.copy_(total);
}

// What members compare: {collective, dtype, numel, root}.
using CallFields = std::array<int64_t, 4>;

std::string call_text(const int64_t* fields) {
  const auto collective = static_cast<size_t>(fields[0]);
  if (collective >= kNames.size()) return "an unknown operation";
  std::string text = kNames[collective];
  if (fields[2] >= 0)
    text += cat(" of ", fields[2], " x ", c10::toString(static_cast<at::ScalarType>(fields[1])));
  if (fields[3] >= 0) text += cat(" from member ", fields[3]);
  return text;
}

}  // namespace

const char* name_of(Collective collective) { return kNames.at(static_cast<size_t>(collective)); }

std::ostream& operator<<(std::ostream& out, Collective collective) { return out << name_of(collective); }

struct Communicator::Call {
  Collective collective;
  at::Tensor tensor;  // undefined if the members provide none
  int root = -1;      // none
};

// The backend's exchanges, each completed before it returns: this thread waits on CPUs, the current stream on
// GPUs. All tensors are flat.
class Communicator::Channel {
 public:
  Channel(const c10::intrusive_ptr<c10d::Store>& store, const Group& group, const BackendOptions& options)
      : options_(options),
        backend_(connect_backend(store, cat("communicator/", group.axis, "/", group.ranks.front()), group,
                                 options)),
        runner_(options.device.is_cuda() ? detail::make_stream_runner(group, options)
                                         : detail::make_thread_runner(group, options)) {}

  detail::Runner& runner() { return *runner_; }

  void broadcast(const at::Tensor& tensor, int root) {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    finish(*backend_->broadcast(tensors, options));
  }

  /// `all` holds as many elements of each member as `mine`, concatenated.
  void all_gather(at::Tensor mine, at::Tensor all) { finish(*backend_->_allgather_base(all, mine)); }

  /// Sends `sent[i]` elements to member i and receives `received[i]` from it; both tensors are concatenated
  /// by member.
  void all_to_all(at::Tensor from, std::vector<int64_t> sent, at::Tensor to, std::vector<int64_t> received) {
    finish(*backend_->alltoall_base(to, from, received, sent));
  }

 private:
  void finish(c10d::Work& work) const {
    if (options_.device.is_cuda()) {
      work.wait();
      return;
    }
    // Gloo's own timeout names the reason; this one, slightly later, is for cases that it might miss.
    if (!work.wait(options_.timeout + std::chrono::milliseconds(2000))) throw std::runtime_error("aborted");
  }

  const BackendOptions options_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::unique_ptr<detail::Runner> runner_;  // last: its tasks use the backend
};

Communicator::Communicator(const c10::intrusive_ptr<c10d::Store>& store, Group group,
                           const BackendOptions& options, CallCheck check)
    : group_(std::move(group)), device_(options.device), check_(check) {
  if (group_.size() == 1) return;
  channel_ = std::make_unique<Channel>(store, group_, options);
  try {
    barrier().wait();  // NCCL connects on its first call: do it here, where the error says so
  } catch (const CommError& error) {
    throw CommError(cat("connecting the ", group_.axis, " group: ", error.what()));
  }
  traffic_ = {};
}

Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;

void Communicator::require_suitable(Collective collective, const at::Tensor& tensor) const {
  require<ShapeError>(tensor.defined(), name_of(collective), " needs a tensor, got an undefined one");
  require<ShapeError>(tensor.layout() == at::kStrided && tensor.is_contiguous(), name_of(collective),
                      " needs a contiguous tensor, got sizes ", tensor.sizes(), " with strides ",
                      tensor.layout() == at::kStrided ? tensor.strides() : at::IntArrayRef());
  require<ShapeError>(tensor.device().type() == device_.type(), name_of(collective), " over the ",
                      group_.axis, " axis needs a tensor on ", device_.str(), ", got one on ",
                      tensor.device().str());
}

Work Communicator::start(const Call& call, at::Tensor result, std::vector<at::Tensor> scratch,
                         std::function<void(Channel&)> exchange) {
  if (!channel_) return Work(detail::ended_operation(std::move(result)));
  Channel* const channel = channel_.get();
  std::vector<at::Tensor> tensors = std::move(scratch);
  for (const at::Tensor& tensor : {call.tensor, result}) {
    if (tensor.defined()) tensors.push_back(tensor);
  }
  std::function<void()> compare = [] {};
  if (check_ == CallCheck::kOn) {
    const bool has_tensor = call.tensor.defined();
    const CallFields fields = {static_cast<int64_t>(call.collective),
                               has_tensor ? static_cast<int64_t>(call.tensor.scalar_type()) : -1,
                               has_tensor ? call.tensor.numel() : -1, call.root};
    at::Tensor mine = at::tensor(fields, at::kLong).to(device_);
    at::Tensor all = at::empty({size() * std::ssize(fields)}, mine.options());
    tensors.insert(tensors.end(), {mine, all});
    compare = [channel, group = group_, fields, mine = std::move(mine), all = std::move(all)] {
      channel->all_gather(mine, all);
      const at::Tensor calls = all.cpu();
      for (int i = 0; i < group.size(); ++i) {
        const int64_t* theirs = calls.const_data_ptr<int64_t>() + i * std::ssize(fields);
        require<CommError>(std::equal(fields.begin(), fields.end(), theirs), "the ranks of the ", group.axis,
                           " group call different operations: ", member_name(group, group.index), " calls ",
                           call_text(fields.data()), ", ", member_name(group, i), " calls ",
                           call_text(theirs));
      }
    };
  }
  return Work(channel->runner().start(
      {.name = name_of(call.collective),
       .run =
           [channel, compare = std::move(compare), exchange = std::move(exchange)] {
             compare();
             exchange(*channel);
           },
       .result = std::move(result),
       .tensors = std::move(tensors),
       .gpu_wait = call.collective == Collective::kBarrier ? detail::Wait::kHost : detail::Wait::kStream}));
}

Work Communicator::all_reduce_sum(const at::Tensor& tensor) {
  require_suitable(Collective::kAllReduceSum, tensor);
  const int64_t n = size();
  const int64_t numel = tensor.numel();
  const int64_t mine = shard_numel(numel, n, index());
  traffic_.add(Collective::kAllReduceSum, (numel + (n - 2) * mine) * tensor.element_size());
  if (n == 2) return all_reduce_sum_of_two(tensor);
  std::vector<int64_t> shards;
  for (int64_t i = 0; i < n; ++i) shards.push_back(shard_numel(numel, n, i));
  const std::vector<int64_t> own_shards(static_cast<size_t>(n), mine);
  const at::Tensor flat = tensor.view({numel});
  const at::Tensor terms = n == 1 ? at::Tensor() : at::empty({n * mine}, tensor.options());
  return start({.collective = Collective::kAllReduceSum, .tensor = tensor}, tensor, {terms},
               [=](Channel& channel) {
                 if (numel == 0) return;
                 channel.all_to_all(flat, shards, terms, own_shards);
                 const at::Tensor rows = terms.view({n, mine});
                 const at::Tensor sum = rows[0];
                 sum_rows(rows, sum);
                 rows.narrow(0, 1, n - 1).copy_(sum.expand({n - 1, mine}));
                 channel.all_to_all(terms, own_shards, flat, shards);
               });
}

// As many bytes as in two exchanges of halves, but half of the latency.
Work Communicator::all_reduce_sum_of_two(const at::Tensor& tensor) {
  std::vector<int64_t> to_other = {0, 0};
  to_other[static_cast<size_t>(1 - index())] = tensor.numel();
  const at::Tensor flat = tensor.view({tensor.numel()});
  const at::Tensor other = at::empty_like(flat);
  return start({.collective = Collective::kAllReduceSum, .tensor = tensor}, tensor, {other},
               [=](Channel& channel) {
                 if (flat.numel() == 0) return;
                 channel.all_to_all(flat, to_other, other, to_other);
                 at::Tensor sum = flat;
                 sum.add_(other);  // the same bits in either order
               });
}

int64_t Communicator::part_numel(Collective collective, const at::Tensor& tensor) const {
  require<ShapeError>(tensor.numel() % size() == 0, name_of(collective), " over the ", group_.axis,
                      " axis needs a multiple of ", size(), " elements, got ", tensor.numel());
  return tensor.numel() / size();
}

Work Communicator::reduce_scatter_sum(const at::Tensor& whole, const at::Tensor& part) {
  require_suitable(Collective::kReduceScatterSum, whole);
  require_suitable(Collective::kReduceScatterSum, part);
  const int64_t n = size();
  const int64_t numel = part_numel(Collective::kReduceScatterSum, whole);
  require<ShapeError>(part.numel() == numel && part.dtype() == whole.dtype(), "reduce_scatter_sum of ",
                      whole.numel(), " x ", whole.dtype(), " over ", n, " members gives each ", numel,
                      " elements, but the result has ", part.numel(), " x ", part.dtype());
  traffic_.add(Collective::kReduceScatterSum, (n - 1) * numel * whole.element_size());
  if (n == 1) {
    if (!part.is_same(whole)) part.view(-1).copy_(whole.view(-1));
    return Work(detail::ended_operation(part));
  }
  const std::vector<int64_t> parts(static_cast<size_t>(n), numel);
  const at::Tensor terms = at::empty({n, numel}, whole.options());
  const at::Tensor flat = whole.view(-1), sum = part.view(-1);
  return start({.collective = Collective::kReduceScatterSum, .tensor = whole}, part, {terms},
               [=](Channel& channel) {
                 if (numel == 0) return;
                 channel.all_to_all(flat, parts, terms.view(-1), parts);
                 sum_rows(terms, sum);
               });
}

Work Communicator::broadcast(const at::Tensor& tensor, int root) {
  require<InternalError>(0 <= root && root < size(), "broadcast from member ", root, " of ", size());
  require_suitable(Collective::kBroadcast, tensor);
  const int64_t receivers = index() == root ? size() - 1 : 0;
  traffic_.add(Collective::kBroadcast, receivers * narrow<int64_t>(tensor.nbytes()));
  return start({.collective = Collective::kBroadcast, .tensor = tensor, .root = root}, tensor, {},
               [=](Channel& channel) {
                 if (tensor.numel() > 0) channel.broadcast(tensor, root);
               });
}

Work Communicator::all_gather(const at::Tensor& mine) {
  require_suitable(Collective::kAllGather, mine);
  traffic_.add(Collective::kAllGather, (size() - 1) * narrow<int64_t>(mine.nbytes()));
  std::vector<int64_t> sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), size());
  const at::Tensor all = at::empty(sizes, mine.options());
  if (size() == 1) all[0].copy_(mine);
  return start({.collective = Collective::kAllGather, .tensor = mine}, all, {}, [=](Channel& channel) {
    if (mine.numel() > 0) channel.all_gather(mine.view({-1}), all.view({-1}));
  });
}

Work Communicator::all_gather_into(const at::Tensor& flat) {
  require_suitable(Collective::kAllGather, flat);
  const int64_t n = size();
  const int64_t numel = part_numel(Collective::kAllGather, flat);
  traffic_.add(Collective::kAllGather, (n - 1) * numel * flat.element_size());
  const at::Tensor all = flat.view(-1);
  const at::Tensor mine = all.narrow(0, index() * numel, numel);
  // Gloo's own all-gather would need the same scratch memory, and a pass over all of it more.
  const bool is_direct = device_.is_cuda() || n == 1;
  const at::Tensor copies = is_direct ? at::Tensor() : at::empty({n, numel}, flat.options());
  const std::vector<int64_t> parts(static_cast<size_t>(n), numel);
  return start({.collective = Collective::kAllGather, .tensor = flat}, flat, {copies}, [=](Channel& channel) {
    if (numel == 0) return;
    if (is_direct) {
      channel.all_gather(mine, all);
    } else {
      copies.copy_(mine.expand({n, numel}));
      channel.all_to_all(copies.view(-1), parts, all, parts);
    }
  });
}

Work Communicator::barrier() {
  traffic_.add(Collective::kBarrier, size() - 1);
  const at::TensorOptions options = at::TensorOptions(at::kByte).device(device_);
  const at::Tensor here = at::zeros({1}, options);
  const at::Tensor all = at::empty({size()}, options);
  return start({.collective = Collective::kBarrier}, {}, {here, all},
               [=](Channel& channel) { channel.all_gather(here, all); });
}

std::vector<std::string> Communicator::all_gather_bytes(const std::string& bytes) {
  const at::Tensor length =
      at::full({1}, narrow<int64_t>(bytes.size()), at::TensorOptions(at::kLong).device(device_));
  const at::Tensor lengths = all_gather(length).wait().cpu();
  const auto* const length_of = lengths.const_data_ptr<int64_t>();
  std::vector<std::string> result(static_cast<size_t>(size()));
  const int64_t longest = lengths.max().item<int64_t>();
  if (longest == 0) return result;
  at::Tensor padded = at::zeros({longest}, at::kByte);
  std::memcpy(padded.mutable_data_ptr<uint8_t>(), bytes.data(), bytes.size());
  const at::Tensor all = all_gather(padded.to(device_)).wait().cpu();
  for (size_t i = 0; i < result.size(); ++i) {
    const uint8_t* const begin = all.const_data_ptr<uint8_t>() + static_cast<int64_t>(i) * longest;
    result[i].assign(reinterpret_cast<const char*>(begin), static_cast<size_t>(length_of[i]));
  }
  return result;
}

}  // namespace braid::comm
