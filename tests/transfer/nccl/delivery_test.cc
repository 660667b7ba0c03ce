#include <gtest/gtest.h>

#include <array>
#include <random>

#include "core/tensor/bfloat16.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/gpu_cluster.h"
#include "tests/support/random_sharding.h"

namespace weft::transfer {
namespace {

/// Resharding or collective plan with its buffers.
struct Planned {
  std::variant<ReshardPlan, CollectivePlan> plan;
  test::GpuOperation operation;
  std::map<DeviceId, std::vector<std::vector<std::byte>>> expected;

  ProgramTransfer transfer(std::uint32_t op) const {
    if (const auto* reshard = std::get_if<ReshardPlan>(&plan)) return {op, reshard, 1};
    return {op, &std::get<CollectivePlan>(plan), 1};
  }
};

template <typename Fill>
void add_buffers(Planned& planned, const DevicePart& part, Fill fill) {
  auto& sources = planned.operation.sources[part.device];
  auto& destinations = planned.operation.destinations[part.device];
  for (std::uint32_t t = 0; t < part.tensors.size(); ++t) {
    sources.push_back(part.tensors[t].source ? fill(t, *part.tensors[t].source)
                                             : std::vector<std::byte>());
    destinations.emplace_back(part.tensors[t].destination_bytes(), std::byte{0xcd});
    planned.expected[part.device].push_back(part.tensors[t].destination
                                                ? fill(t, *part.tensors[t].destination)
                                                : std::vector<std::byte>());
  }
}

Topology random_topology(std::mt19937_64& random) {
  std::vector<int> devices_per_host(1 + random() % 3);
  for (int& devices : devices_per_host) devices = 1 + static_cast<int>(random() % 4);
  return Topology::dense(devices_per_host);
}

/// Plans one or two random tensors with a random strategy.
Planned random_reshard(std::mt19937_64& random, const Topology& topology) {
  std::vector<ReshardTask> tasks;
  for (std::size_t i = 0; i <= random() % 2; ++i) {
    const DType dtype =
        std::array{DType::kF32, DType::kBF16, DType::kF64, DType::kU8}[random() % 4];
    const Shape shape = test::random_shape(random, 12);
    const auto source = test::random_sharding(random, shape, topology.num_devices());
    tasks.push_back({{dtype, shape},
                     source.map(shape),
                     test::random_sharding(random, shape, topology.num_devices()).map(shape)});
  }
  PlanOptions options;
  options.chunks = ChunkOptions{64, 128, 2};
  const Network network = Network::uniform(topology.num_hosts(), 1e8);
  const auto strategy = std::array{ReshardAlgorithm::kWeft, ReshardAlgorithm::kSendRecv,
                                   ReshardAlgorithm::kBroadcast}[random() % 3];
  Planned planned{plan_reshard(tasks, topology, network, strategy, options), {}, {}};
  const auto& plan = std::get<ReshardPlan>(planned.plan);
  for (const DeviceId device : plan.devices()) {
    add_buffers(planned, plan.device_part(device), [&](std::uint32_t t, const Region& region) {
      return test::box_of_indices(region, tasks[t].type.shape, size_of(tasks[t].type.dtype));
    });
  }
  return planned;
}

std::vector<DeviceId> random_group(std::mt19937_64& random, std::size_t num_devices) {
  std::vector<DeviceId> devices;
  for (std::uint32_t i = 0; i < num_devices; ++i) devices.emplace_back(i);
  std::shuffle(devices.begin(), devices.end(), random);
  devices.resize(1 + random() % num_devices);
  return devices;
}

/// Makes floats whose sums depend on the order or, if `whole`, small integers whose sums do not.
std::vector<float> random_floats(std::mt19937_64& random, std::size_t count, bool whole) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = whole ? random() % 100
                  : std::ldexp(static_cast<float>(random() % 10007) - 5000,
                               static_cast<int>(random() % 20));
  }
  return values;
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> part_of(const Region& region, const Region& box,
                               const std::vector<std::byte>& bytes) {
  std::vector<std::byte> part(static_cast<std::size_t>(region.num_elements()) * 4);
  copy_region(region, 4, box, bytes, region, part);
  return part;
}

Planned random_collective(std::mt19937_64& random, const Topology& topology, bool whole) {
  const auto group = random_group(random, topology.num_devices());
  const std::int64_t n = group.size();
  const auto kind = static_cast<CollectiveKind>(random() % 3);
  const std::int64_t rows = n + static_cast<std::int64_t>(random() % 9),
                     columns = 1 + static_cast<std::int64_t>(random() % 40);
  const bool by_rows = random() % 2 == 0;
  const Region box =
      by_rows ? Region({{0, rows}, {0, columns}}) : Region({{0, columns}, {0, rows}});
  std::vector<Shard> shards;
  for (std::int64_t i = 0; i < n; ++i) {
    const Interval cut{rows * i / n, rows * (i + 1) / n};
    shards.push_back({group[i], by_rows ? Region({cut, box[1]}) : Region({box[0], cut})});
  }
  const std::size_t count = box.num_elements();
  std::vector<std::vector<float>> terms;
  for (std::size_t i = 0; i < group.size(); ++i)
    terms.push_back(random_floats(random, count, whole));
  std::vector<float> sum = terms[0];
  for (std::size_t rank = 1; rank < terms.size(); ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += terms[rank][i];
  }
  Planned planned;
  if (kind == CollectiveKind::kAllReduce)
    planned.plan = plan_all_reduce(DType::kF32, box, group, topology);
  else if (kind == CollectiveKind::kReduceScatter)
    planned.plan = plan_reduce_scatter(DType::kF32, box, shards, topology);
  else planned.plan = plan_all_gather(DType::kF32, box, shards, topology);
  for (std::size_t i = 0; i < group.size(); ++i) {
    auto& source = planned.operation.sources[group[i]];
    auto& expected = planned.expected[group[i]];
    const auto whole_box =
        kind == CollectiveKind::kAllGather ? bytes_of(terms[0]) : bytes_of(terms[i]);
    source.push_back(kind == CollectiveKind::kAllGather ? part_of(shards[i].region, box, whole_box)
                                                        : whole_box);
    if (kind == CollectiveKind::kAllReduce) expected.push_back(bytes_of(sum));
    else if (kind == CollectiveKind::kReduceScatter)
      expected.push_back(part_of(shards[i].region, box, bytes_of(sum)));
    else expected.push_back(bytes_of(terms[0]));
    planned.operation.destinations[group[i]].emplace_back(expected.back().size(), std::byte{0xcd});
  }
  if (kind == CollectiveKind::kAllReduce && random() % 2 == 0) {
    planned.operation.in_place = true;
    planned.operation.destinations = planned.operation.sources;
  }
  return planned;
}

/// Makes timelines in which each device starts its operations in its own order, then waits for all.
std::vector<DeviceTimeline> random_timelines(std::mt19937_64& random,
                                             const std::vector<Planned>& planned,
                                             std::size_t devices) {
  std::vector<DeviceTimeline> timelines;
  for (std::uint32_t device = 0; device < devices; ++device) {
    std::vector<OperationKey> own;
    for (const Planned& operation : planned) {
      if (!operation.operation.lowered.part(DeviceId(device)).empty())
        own.push_back(operation.operation.key);
    }
    std::shuffle(own.begin(), own.end(), random);
    DeviceTimeline& timeline = timelines.emplace_back(DeviceTimeline{DeviceId(device), {}});
    for (const OperationKey& key : own) {
      timeline.steps.emplace_back(TimelineWork{static_cast<double>(random() % 5)});
      timeline.steps.emplace_back(TimelineStart{key});
    }
    for (const OperationKey& key : own) timeline.steps.emplace_back(TimelineWait{key});
  }
  return timelines;
}

void deliver(std::mt19937_64& random, const LoweringOptions& options, bool whole_numbers,
             bool connects_lazily) {
  const Topology topology = random_topology(random);
  std::vector<Planned> planned;
  for (std::size_t i = 0; i < 4; ++i)
    planned.push_back(random() % 2 == 0 ? random_reshard(random, topology)
                                        : random_collective(random, topology, whole_numbers));
  std::vector<ProgramTransfer> transfers;
  for (std::uint32_t i = 0; i < planned.size(); ++i) transfers.push_back(planned[i].transfer(i));
  const auto choice = choose_communicators(transfers, 4 + random() % 8);
  const auto lowered = lower_program(transfers, choice, options);
  for (std::uint32_t i = 0; i < planned.size(); ++i) {
    planned[i].operation.key = {i, 0};
    planned[i].operation.lowered = lowered.at(i);
    ASSERT_EQ(decode<LoweredTransfer>(encode(lowered.at(i))), lowered.at(i));
  }
  const auto timelines = random_timelines(random, planned, topology.num_devices());
  const auto order = total_order(timelines);
  test::GpuCluster cluster(topology.num_devices(), {connects_lazily, true});
  cluster.ledger = CommunicatorCache(12);
  cluster.open(1, choice.groups);
  const auto errors = cluster.on(cluster.all(), [&](std::uint32_t device) {
    test::FakeGpu& gpu = *cluster.gpus[device];
    gpu.queue.begin(order_of_device(order, timelines[device], {0, 1, 2, 3}));
    std::map<OperationKey, DeviceOperations> parts;
    for (const TimelineStep& step : timelines[device].steps) {
      if (const auto* start = std::get_if<TimelineStart>(&step)) {
        test::GpuOperation& operation = planned[start->key.op].operation;
        const auto part = parts.emplace(start->key, operation.lowered.part(DeviceId(device))).first;
        operation.start(gpu, DeviceId(device), part->second);
      } else if (const auto* wait = std::get_if<TimelineWait>(&step)) {
        gpu.queue.wait(wait->key, *gpu.compute);
      }
    }
    gpu.queue.poll();
  });
  for (const auto& [device, error] : errors)
    FAIL() << "device " << device << ": " << error.describe();
  ASSERT_EQ(cluster.world.stuck(), "");
  ASSERT_EQ(cluster.world.error(), "");
  for (const Planned& operation : planned) {
    for (const auto& [device, expected] : operation.expected)
      ASSERT_EQ(operation.operation.destinations.at(device), expected)
          << "device " << device.value() << "\n"
          << to_string(operation.operation.lowered);
  }
}

TEST(DeviceCollective, RandomPlansDeliverTheBytesAndSumsInRankOrder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 120; ++round) {
    SCOPED_TRACE(round);
    LoweringOptions options;
    options.gather_bytes = random() % 2 == 0 ? 0 : 4096;
    options.slab_bytes = 256u << (random() % 4);
    options.relay_chunk_bytes = 16u << (random() % 6);
    deliver(random, options, false, round % 2 == 0);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(DeviceCollective, TheLibrarysOwnSumsDeliverToo) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    LoweringOptions options;
    options.deterministic = false;
    deliver(random, options, true, false);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(DeviceCollective, ABf16AllReduceAddsInFloatAndRoundsOnce) {
  const Topology topology = Topology::dense({3});
  CollectivePlan plan = plan_all_reduce(DType::kF32, Region({{0, 2}}),
                                        {DeviceId(0), DeviceId(1), DeviceId(2)}, topology);
  plan.dtype = DType::kBF16;
  test::GpuOperation operation{{0, -1}, lower(plan), {}, {}, true};
  // If each addition rounded, 1 + 2^-8 + 2^-8 would stay 1, and 256 + 1 + 1 would stay 256.
  const std::array<std::array<float, 2>, 3> terms = {
      {{1.0f, 256.0f}, {0.00390625f, 1.0f}, {0.00390625f, 1.0f}}};
  for (std::uint32_t device = 0; device < 3; ++device) {
    const std::array<BFloat16, 2> values = {BFloat16(terms[device][0]), BFloat16(terms[device][1])};
    const auto bytes = std::as_bytes(std::span(values));
    operation.destinations[DeviceId(device)].emplace_back(bytes.begin(), bytes.end());
  }
  test::GpuCluster cluster(3);
  cluster.open(1, operation.lowered.groups());
  cluster.on(cluster.all(), [&](std::uint32_t device) {
    cluster.gpus[device]->queue.begin({operation.key});
    const DeviceOperations part = operation.lowered.part(DeviceId(device));
    operation.start(*cluster.gpus[device], DeviceId(device), part);
    cluster.world.run();
  });
  ASSERT_EQ(cluster.world.stuck(), "");
  for (std::uint32_t device = 0; device < 3; ++device) {
    std::array<BFloat16, 2> values;
    std::memcpy(values.data(), operation.destinations.at(DeviceId(device))[0].data(),
                sizeof(values));
    EXPECT_EQ(static_cast<float>(values[0]), 1.0078125f);
    EXPECT_EQ(static_cast<float>(values[1]), 258.0f);
  }
}

}  // namespace
}  // namespace weft::transfer
