// Tests NCCL between two processes on one GPU. Different values of NCCL_HOSTID make them two hosts,
// so that NCCL uses sockets, and kernels alternate on the GPU. The calls are those between real
// GPUs, but slow. Each rank is this program with WEFT_NCCL_RANK set. A socket connects the two
// ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <random>

#include "core/base/error.h"
#include "core/cuda_support/cuda_support.h"
#include "core/cuda_support/open_gpu_plugin.h"
#include "core/tensor/bfloat16.h"
#include "tests/support/two_ranks.h"
#include "transfer/nccl/collective_queue.h"
#include "transfer/nccl/collectives_plugin.h"
#include "transfer/nccl/lower.h"

namespace weft::transfer {
namespace {

constexpr std::uint32_t kRanks = 2;
using Bytes = std::vector<std::byte>;

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Rank with its GPU.
class Rank {
 public:
  explicit Rank(std::uint32_t rank) : self_(rank) {
    CollectiveQueueOptions options;
    options.create_timeout = std::chrono::seconds(60);
    options.operation_timeout = std::chrono::seconds(10);
    queue_.emplace(DeviceId(rank), *library_, *device_, clock_, options);
    compute_ = device_->create_stream();
  }

  std::uint32_t self() const { return self_; }
  CollectiveQueue& queue() { return *queue_; }

  /// Opens the queue. Rank 0 sends the communicator's id to rank 1.
  void open(std::uint64_t epoch) {
    const CommunicatorChanges changes{{}, {group()}};
    auto ids = queue_->make_ids(changes.create);
    if (self_ == 0) {
      ASSERT_EQ(::write(test::kRankSocket, ids.at(0).id.data(), ids.at(0).id.size()),
                static_cast<ssize_t>(ids.at(0).id.size()));
    } else {
      Bytes id(128);
      for (std::size_t at = 0; at < id.size();) {
        const ssize_t n = ::read(test::kRankSocket, id.data() + at, id.size() - at);
        ASSERT_GT(n, 0) << "rank 0 is gone";
        at += n;
      }
      ids.push_back({group(), id});
    }
    queue_->open(epoch, changes, ids);
  }

  void barrier() {
    char byte = 'b';
    ASSERT_EQ(::write(test::kRankSocket, &byte, 1), 1);
    ASSERT_EQ(::read(test::kRankSocket, &byte, 1), 1) << "the other rank is gone";
  }

  static CommunicatorGroup group() { return CommunicatorGroup::of({DeviceId(0), DeviceId(1)}); }

  /// Runs this rank's part of a transfer of one tensor and returns its destination. If `in_place`,
  /// the source is the destination.
  Bytes run(const DeviceOperations& part, const Bytes& source, bool in_place = false) {
    start(part, source, in_place);
    while (!queue_->done(key_)) queue_->poll();
    DeviceMemory out = device_->allocate_staging(destination_.size());
    queue_->wait(key_, *compute_);
    compute_->copy({destination_.data(), destination_.size()}, {out.data(), out.size()});
    compute_->synchronize();
    return {out.data(), out.data() + out.size()};
  }

  void start(const DeviceOperations& part, const Bytes& source, bool in_place = false) {
    DeviceMemory in = device_->allocate_staging(source.size());
    std::copy(source.begin(), source.end(), in.data());
    source_ = device_->allocate(source.size());
    destination_ = device_->allocate(part.destination_bytes.at(0));
    DeviceMemory& first = in_place ? destination_ : source_;
    compute_->copy({in.data(), in.size()}, {first.data(), first.size()});
    compute_->synchronize();
    part_ = part;
    key_ = {key_.op + 1, -1};
    queue_->begin({key_});
    const std::span<const std::byte> from(first.data(), source.size());
    const std::span<std::byte> to(destination_.data(), destination_.size());
    queue_->start(key_, part_, {&from, 1}, {&to, 1}, compute_->record());
  }

 private:
  const std::uint32_t self_;
  const PluginSearch search_ = plugin_search(plugin_places());
  const SteadyClock clock_;
  std::unique_ptr<Device> device_ = make_cuda_device({}, search_);
  std::unique_ptr<CollectivesPlugin> plugin_ = open_gpu_plugin<CollectivesPlugin>(search_);
  std::unique_ptr<DeviceCollectives> library_ = plugin_->make_collectives({0, 2});
  DeviceMemory source_, destination_;
  DeviceOperations part_;
  OperationKey key_;
  std::optional<CollectiveQueue> queue_;
  std::unique_ptr<weft::Stream> compute_;
};

/// Makes the same values on both ranks, by rank. Their sums depend on the order unless `whole`.
std::array<std::vector<float>, kRanks> values(std::uint64_t seed, std::size_t count, bool whole) {
  std::mt19937_64 random(seed);
  std::array<std::vector<float>, kRanks> result;
  for (auto& of_rank : result) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = static_cast<float>(random() % 2001) - 1000;
      of_rank.push_back(whole ? number : number * 1.1f);
    }
  }
  return result;
}

void all_reduces(Rank& rank) {
  const Topology topology = Topology::dense({1, 1});
  const std::size_t count = 300'003;
  const Region box({{0, static_cast<std::int64_t>(count)}});
  for (const bool deterministic : {false, true}) {
    for (const std::uint64_t gather_bytes : {std::uint64_t{0}, std::uint64_t{1} << 30}) {
      SCOPED_TRACE(fmt::format("deterministic {} gather {}", deterministic, gather_bytes));
      LoweringOptions options;
      options.deterministic = deterministic;
      options.gather_bytes = gather_bytes;
      options.slab_bytes = 256 * 1024;
      const auto lowered =
          lower(plan_all_reduce(DType::kF32, box, {DeviceId(0), DeviceId(1)}, topology), options);
      const auto terms = values(1, count, !deterministic);
      std::vector<float> sum = terms[0];
      for (std::size_t i = 0; i < count; ++i) sum[i] += terms[1][i];
      EXPECT_EQ(rank.run(lowered.part(DeviceId(rank.self())), bytes_of(terms[rank.self()])),
                bytes_of(sum));
      EXPECT_EQ(rank.run(lowered.part(DeviceId(rank.self())), bytes_of(terms[rank.self()]), true),
                bytes_of(sum))
          << "in place";
    }
  }
}

void bf16_all_reduce(Rank& rank) {
  CollectivePlan plan = plan_all_reduce(DType::kF32, Region({{0, 1001}}),
                                        {DeviceId(0), DeviceId(1)}, Topology::dense({1, 1}));
  plan.dtype = DType::kBF16;
  const auto terms = values(2, 1001, false);
  std::vector<BFloat16> own, sum;
  for (std::size_t i = 0; i < 1001; ++i) {
    own.emplace_back(terms[rank.self()][i]);
    sum.emplace_back(static_cast<float>(BFloat16(terms[0][i])) +
                     static_cast<float>(BFloat16(terms[1][i])));
  }
  EXPECT_EQ(rank.run(lower(plan).part(DeviceId(rank.self())), bytes_of(own)), bytes_of(sum));
}

/// Reshards columns to rows. Odd sizes make packing meet every alignment.
void reshards(Rank& rank) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU8}) {
    SCOPED_TRACE(to_string(dtype));
    const Shape shape = {37, 5, 131};
    const auto map = [&](std::size_t dimension) {
      ShardMap result{shape, {}};
      for (std::int64_t i = 0; i < kRanks; ++i) {
        std::vector<Interval> box = {{0, shape[0]}, {0, shape[1]}, {0, shape[2]}};
        box[dimension] = {shape[dimension] * i / kRanks, shape[dimension] * (i + 1) / kRanks};
        result.shards.push_back({DeviceId(i), Region(box)});
      }
      return result;
    };
    const ReshardTask task{{dtype, shape}, map(2), map(0)};
    const std::size_t size = size_of(dtype);
    Bytes whole(num_elements(shape) * size);
    std::mt19937_64 random(3);
    for (std::byte& byte : whole) byte = static_cast<std::byte>(random());
    const auto part_of = [&](const Region& region) {
      Bytes bytes(region.num_elements() * size);
      copy_region(region, size, Region::whole(shape), whole, region, bytes);
      return bytes;
    };
    const auto lowered =
        lower(plan_reshard(task, Topology::dense({1, 1}), ReshardAlgorithm::kWeft));
    const DeviceId self(rank.self());
    EXPECT_EQ(rank.run(lowered.part(self), part_of(*task.source.region_of(self))),
              part_of(*task.destination.region_of(self)));
  }
}

void broadcasts(Rank& rank) {
  const Bytes sent = bytes_of(values(4, 5000, true)[0]);
  const CollectiveCall call{CallKind::kBroadcast,
                            DType::kU8,
                            ReduceOp::kSum,
                            0,
                            sent.size(),
                            {BufferKind::kDestination, 0, 0},
                            {BufferKind::kDestination, 0, 0}};
  const DeviceOperations part{
      DeviceId(rank.self()),    {Rank::group()}, {sent.size()}, {sent.size()}, 0,
      {RoundStep{0, 0, {call}}}};
  EXPECT_EQ(rank.run(part, rank.self() == 0 ? sent : Bytes(sent.size()), true), sent);
}

void scatter_and_gather(Rank& rank) {
  const Topology topology = Topology::dense({1, 1});
  const Region box({{0, 7}, {0, 33}});
  const std::vector<Shard> shards = {{DeviceId(0), Region({{0, 3}, {0, 33}})},
                                     {DeviceId(1), Region({{3, 7}, {0, 33}})}};
  const Region& own = shards[rank.self()].region;
  const auto terms = values(5, 7 * 33, true);
  std::vector<float> sum = terms[0];
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += terms[1][i];
  const auto part_of = [&](const std::vector<float>& values) {
    Bytes bytes(static_cast<std::size_t>(own.num_elements()) * 4);
    copy_region(own, 4, box, bytes_of(values), own, bytes);
    return bytes;
  };
  for (const bool deterministic : {false, true}) {
    LoweringOptions options;
    options.deterministic = deterministic;
    const auto scatter = lower(plan_reduce_scatter(DType::kF32, box, shards, topology), options);
    EXPECT_EQ(rank.run(scatter.part(DeviceId(rank.self())), bytes_of(terms[rank.self()])),
              part_of(sum));
  }
  const auto gather = lower(plan_all_gather(DType::kF32, box, shards, topology));
  EXPECT_EQ(rank.run(gather.part(DeviceId(rank.self())), part_of(terms[0])), bytes_of(terms[0]));
}

/// Rank 1 does not join. Rank 0's kernel waits until its communicator is aborted. Then both ranks
/// start over.
void abort_and_begin_again(Rank& rank) {
  const auto lowered = lower(plan_all_reduce(DType::kF32, Region({{0, 1000}}),
                                             {DeviceId(0), DeviceId(1)}, Topology::dense({1, 1})));
  const auto terms = values(6, 1000, true);
  if (rank.self() == 0) {
    rank.start(lowered.part(DeviceId(0)), bytes_of(terms[0]));
    try {
      for (;;) rank.queue().poll();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded) << error.describe();
    }
  }
  rank.barrier();
  rank.queue().cancel(1, Error(ErrorCode::kPeerDied, "the test ends epoch 1"));
  rank.queue().abort();
  rank.open(2);
  all_reduces(rank);
}

TEST(NcclRank, DISABLED_Work) {
  const char* number = std::getenv("WEFT_NCCL_RANK");
  if (number == nullptr) GTEST_SKIP() << "only as a child of TwoRanksOnOneGpu";
  ::alarm(150);  // Ends a process that hangs.
  Rank rank(std::atoi(number));
  const auto step = [&](const char* name, void (*work)(Rank&)) {
    if (::testing::Test::HasFailure()) return;
    std::printf("rank %u: %s\n", rank.self(), name);
    std::fflush(stdout);
    try {
      work(rank);
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.describe();
    }
  };
  step("open", [](Rank& r) { r.open(1); });
  step("broadcast", broadcasts);
  step("all-reduce", all_reduces);
  step("bf16 all-reduce", bf16_all_reduce);
  step("reshard", reshards);
  step("reduce-scatter, all-gather", scatter_and_gather);
  step("barrier", [](Rank& r) { r.barrier(); });
  step("abort, and begin again", abort_and_begin_again);
  step("barrier", [](Rank& r) { r.barrier(); });
}

TEST(TwoRanksOnOneGpu, BroadcastSumReshardAbortAndBeginAgain) {
  if (const std::string missing = cuda_support(plugin_search(plugin_places())).unavailable_reason;
      !missing.empty())
    GTEST_SKIP() << "skipped: " << missing;
  test::run_two_ranks("NcclRank.DISABLED_Work", "WEFT_NCCL_RANK");
}

}  // namespace
}  // namespace weft::transfer
