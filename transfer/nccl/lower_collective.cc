#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "transfer/nccl/internal/operations_builder.h"
#include "transfer/nccl/internal/strided_copies.h"
#include "transfer/nccl/lower.h"

namespace weft::transfer {
namespace {

/// Lowers a collective, by ranks of the communicator. These ascend by device; the plan's ranks may
/// be in another order.
class CollectiveLowering {
 public:
  CollectiveLowering(const CollectivePlan& plan, const LoweringOptions& options)
      : plan_(plan), options_(options), size_(size_of(plan.dtype)) {
    std::vector<DeviceId> devices;
    for (const CollectivePlan::Rank& rank : plan.ranks) {
      devices.push_back(rank.device);
      builder_.add_device(rank.device, plan.device_part(rank.device).tensors);
      for (const Reduction& reduction : rank.reductions) op_ = reduction.op;
    }
    group_ = CommunicatorGroup::of(std::move(devices));
    for (const DeviceId device : group_.devices) {
      ranks_.push_back(
          &*std::find_if(plan.ranks.begin(), plan.ranks.end(),
                         [&](const CollectivePlan::Rank& rank) { return rank.device == device; }));
    }
    for (const CollectivePlan::Rank& rank : plan.ranks)
      term_order_.push_back(*group_.rank_of(rank.device));
  }

  LoweredTransfer run() && {
    const bool sums_in_order = options_.deterministic && op_ == ReduceOp::kSum;
    if (size() == 1) {
      builder_.copy(device(0),
                    copy_between(plan_.ranks[0].destination, size_, source(0), destination(0)));
    } else if (plan_.kind == CollectiveKind::kAllReduce) {
      if (!sums_in_order) all_reduce();
      else if (elements(ranks_[0]->source) * size_ * size() <= options_.gather_bytes)
        all_reduce_by_gathering();
      else all_reduce_by_exchange();
    } else if (plan_.kind == CollectiveKind::kReduceScatter) {
      if (sums_in_order) reduce_scatter_by_exchange();
      else reduce_scatter();
    } else {
      all_gather();
    }
    return std::move(builder_).finish();
  }

 private:
  std::size_t size() const { return ranks_.size(); }
  DeviceId device(std::size_t rank) const { return ranks_[rank]->device; }
  PlacedBox source(std::size_t rank) const {
    return {{BufferKind::kSource, 0, 0}, ranks_[rank]->source};
  }
  PlacedBox destination(std::size_t rank) const {
    return {{BufferKind::kDestination, 0, 0}, ranks_[rank]->destination};
  }
  static std::uint64_t elements(const Region& region) { return region.num_elements(); }
  BufferPlace at(BufferPlace place, std::uint64_t element) const {
    place.offset += element * size_;
    return place;
  }
  static BufferPlace in_source(std::uint64_t offset) { return {BufferKind::kSource, 0, offset}; }
  static BufferPlace in_destination(std::uint64_t offset) {
    return {BufferKind::kDestination, 0, offset};
  }

  void call(std::size_t rank, CallKind kind, std::size_t peer, std::uint64_t count,
            const BufferPlace& from, const BufferPlace& to) {
    builder_.call(device(rank), group_, next_round_,
                  {kind, plan_.dtype, op_, static_cast<std::uint32_t>(peer), count, from, to});
  }
  void send(std::size_t from, std::size_t to, std::uint64_t count, const BufferPlace& source,
            const BufferPlace& destination) {
    call(from, CallKind::kSend, to, count, source, {});
    call(to, CallKind::kReceive, from, count, {}, destination);
  }

  void all_reduce() {
    for (std::size_t r = 0; r < size(); ++r)
      call(r, CallKind::kAllReduce, 0, elements(ranks_[r]->source), in_source(0),
           in_destination(0));
    ++next_round_;
  }

  /// Gathers all terms on every rank, which sums them.
  void all_reduce_by_gathering() {
    const std::uint64_t count = elements(ranks_[0]->source);
    for (std::size_t r = 0; r < size(); ++r) {
      const BufferPlace terms = builder_.stage(device(r), count * size() * size_);
      call(r, CallKind::kAllGather, 0, count, in_source(0), terms);
      SumStep sum{plan_.dtype, count, {}, in_destination(0)};
      for (const std::size_t term : term_order_) sum.terms.push_back(at(terms, term * count));
      builder_.sum(device(r), std::move(sum));
    }
    ++next_round_;
  }

  /// Proceeds by slabs: rank j receives piece j of every rank and sums them, then all ranks gather
  /// the results. Moves as many bytes as a ring.
  void all_reduce_by_exchange() {
    constexpr std::uint64_t kGrain = 64;  // elements; keeps pieces aligned
    const std::uint64_t total = elements(ranks_[0]->source), ranks = size();
    const std::uint64_t whole_piece =
        std::max(options_.slab_bytes / size_ / ranks / kGrain, std::uint64_t{1}) * kGrain;
    std::vector<BufferPlace> staging(ranks);
    for (std::uint64_t begin = 0; begin < total; begin += whole_piece * ranks) {
      const std::uint64_t count = std::min(whole_piece * ranks, total - begin);
      const std::uint64_t piece = (count + ranks * kGrain - 1) / (ranks * kGrain) * kGrain;
      if (begin == 0) {
        for (std::size_t r = 0; r < ranks; ++r)
          staging[r] = builder_.stage(device(r), piece * (ranks - 1) * size_);
      }
      exchange_slab(begin, count, piece, staging);
    }
  }

  void exchange_slab(std::uint64_t begin, std::uint64_t count, std::uint64_t piece,
                     const std::vector<BufferPlace>& staging) {
    // Piece j of the slab is [first(j), first(j + 1)). The last pieces may be short or empty.
    const auto first = [&](std::size_t j) { return begin + std::min(count, piece * j); };
    const auto length = [&](std::size_t j) { return first(j + 1) - first(j); };
    const auto slot = [&](std::size_t owner, std::size_t sender) {
      return at(staging[owner], piece * (sender < owner ? sender : sender - 1));
    };
    for (std::size_t distance = 1; distance < size(); ++distance) {
      for (std::size_t i = 0; i < size(); ++i) {
        const std::size_t j = (i + distance) % size();
        if (length(j) > 0) send(i, j, length(j), at(in_source(0), first(j)), slot(j, i));
      }
    }
    ++next_round_;
    for (std::size_t j = 0; j < size(); ++j) {
      if (length(j) == 0) continue;
      SumStep sum{plan_.dtype, length(j), {}, at(in_destination(0), first(j))};
      for (const std::size_t term : term_order_)
        sum.terms.push_back(term == j ? at(in_source(0), first(j)) : slot(j, term));
      builder_.sum(device(j), std::move(sum));
    }
    if (count == piece * size()) {
      for (std::size_t r = 0; r < size(); ++r)
        call(r, CallKind::kAllGather, 0, piece, at(in_destination(0), first(r)),
             at(in_destination(0), begin));
    } else {
      for (std::size_t j = 0; j < size(); ++j) {
        for (std::size_t r = 0; r < size() && length(j) > 0; ++r)
          call(r, CallKind::kBroadcast, j, length(j), at(in_destination(0), first(j)),
               at(in_destination(0), first(j)));
      }
    }
    ++next_round_;
  }

  std::uint64_t largest(bool of_sources) const {
    std::uint64_t count = 0;
    for (const CollectivePlan::Rank* rank : ranks_)
      count = std::max(count, elements(of_sources ? rank->source : rank->destination));
    return count;
  }

  /// Lays out pieces of equal size in rank order in staging, with gaps for smaller ones, as the
  /// library requires.
  void reduce_scatter() {
    const std::uint64_t count = largest(false);
    for (std::size_t r = 0; r < size(); ++r) {
      BufferPlace from = builder_.stage(device(r), count * size() * size_);
      for (std::size_t j = 0; j < size(); ++j)
        builder_.copy(device(r), copy_between(ranks_[j]->destination, size_, source(r),
                                              {at(from, count * j), ranks_[j]->destination}));
      const bool fits = elements(ranks_[r]->destination) == count;
      const BufferPlace to = fits ? in_destination(0) : builder_.stage(device(r), count * size_);
      call(r, CallKind::kReduceScatter, 0, count, from, to);
      if (!fits)
        builder_.copy(device(r), copy_between(ranks_[r]->destination, size_,
                                              {to, ranks_[r]->destination}, destination(r)));
    }
    ++next_round_;
  }

  /// Sends each rank every other rank's term of its region; the owner sums them.
  void reduce_scatter_by_exchange() {
    // [owner][sender], at the owner
    std::vector<std::vector<BufferPlace>> terms(size(), std::vector<BufferPlace>(size()));
    for (std::size_t i = 0; i < size(); ++i) {
      for (std::size_t j = 0; j < size(); ++j) {
        const Region& region = ranks_[j]->destination;
        terms[j][i] = builder_.stage(device(j), elements(region) * size_);
        if (i == j)
          builder_.copy(device(j), copy_between(region, size_, source(j), {terms[j][j], region}));
      }
    }
    std::vector<std::vector<BufferPlace>> packed = terms;  // [owner][sender], at the sender
    for (std::size_t distance = 1; distance < size(); ++distance) {
      for (std::size_t i = 0; i < size(); ++i) {
        const std::size_t j = (i + distance) % size();
        const Region& region = ranks_[j]->destination;
        const StridedCopy copy = copy_between(region, size_, source(i), {{}, region});
        if (copy.outer.empty()) {
          packed[j][i] = copy.from;
          continue;
        }
        packed[j][i] = builder_.stage(device(i), copy.bytes());
        builder_.copy(device(i), copy_between(region, size_, source(i), {packed[j][i], region}));
      }
    }
    for (std::size_t distance = 1; distance < size(); ++distance) {
      for (std::size_t i = 0; i < size(); ++i) {
        const std::size_t j = (i + distance) % size();
        send(i, j, elements(ranks_[j]->destination), packed[j][i], terms[j][i]);
      }
    }
    ++next_round_;
    for (std::size_t j = 0; j < size(); ++j) {
      SumStep sum{plan_.dtype, elements(ranks_[j]->destination), {}, in_destination(0)};
      for (const std::size_t term : term_order_) sum.terms.push_back(terms[j][term]);
      builder_.sum(device(j), std::move(sum));
    }
  }

  /// Gathers directly into the destination if the ranks' regions have equal sizes and are adjacent
  /// there. Otherwise uses staging.
  void all_gather() {
    const std::uint64_t count = largest(true);
    const Region& box = ranks_[0]->destination;
    bool straight = true;
    for (std::size_t j = 0; j < size(); ++j) {
      const StridedCopy copy =
          copy_between(ranks_[j]->source, size_, {{}, box}, {{}, ranks_[j]->source});
      straight = straight && copy.outer.empty() && copy.from.offset == j * count * size_ &&
                 copy.run_bytes == count * size_;
    }
    for (std::size_t r = 0; r < size(); ++r) {
      BufferPlace from = in_source(0);
      if (elements(ranks_[r]->source) < count) {
        from = builder_.stage(device(r), count * size_);
        builder_.copy(device(r),
                      copy_between(ranks_[r]->source, size_, source(r), {from, ranks_[r]->source}));
      }
      const BufferPlace to =
          straight ? in_destination(0) : builder_.stage(device(r), count * size() * size_);
      call(r, CallKind::kAllGather, 0, count, from, to);
      for (std::size_t j = 0; j < size() && !straight; ++j) {
        const Region& region = ranks_[j]->source;
        builder_.copy(device(r),
                      copy_between(region, size_, {at(to, count * j), region}, destination(r)));
      }
    }
    ++next_round_;
  }

  const CollectivePlan& plan_;
  const LoweringOptions& options_;
  const std::size_t size_;
  ReduceOp op_ = ReduceOp::kSum;
  CommunicatorGroup group_;
  /// Plan's ranks, indexed by rank in the communicator.
  std::vector<const CollectivePlan::Rank*> ranks_;
  /// Ranks of the communicator in the order of the plan's ranks.
  std::vector<std::size_t> term_order_;
  OperationsBuilder builder_;
  std::uint32_t next_round_ = 0;
};

}  // namespace

LoweredTransfer lower(const CollectivePlan& plan, const LoweringOptions& options) {
  if (plan.ranks.empty())
    throw_error(ErrorCode::kInvalidArgument, "a collective without ranks cannot be lowered");
  return CollectiveLowering(plan, options).run();
}

}  // namespace weft::transfer
