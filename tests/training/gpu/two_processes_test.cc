// Tests training by two processes on one GPU, which are two hosts to NCCL (see run_two_ranks).
// Tensors sent by NCCL and through host memory must give equal bits, and losses near the CPU's.
// Each rank is this program with WEFT_TRAINING_RANK set. A socket connects the two ranks in place
// of a driver.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "core/cuda_support/cuda_support.h"
#include "mesh/executor/device_engine.h"
#include "mesh/plan/plan_text.h"
#include "mesh/runtime/in_process_training.h"
#include "mesh/runtime/step_result.h"
#include "tests/support/cluster_token.h"
#include "tests/support/thrown_error.h"
#include "tests/support/two_ranks.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"
#include "transfer/nccl/communicator_cache.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kStepsOfRank = 3;

/// Connection to the other rank.
class Peer {
 public:
  /// Sends `own` and receives the other rank's value. Returns both in rank order.
  template <typename T>
  std::array<T, 2> exchange(std::uint32_t self, const T& own) {
    const std::vector<std::byte> bytes = encode(own);
    const std::uint64_t size = bytes.size();
    write_all(&size, sizeof(size));
    write_all(bytes.data(), bytes.size());
    std::uint64_t other_size = 0;
    read_all(&other_size, sizeof(other_size));
    std::vector<std::byte> other(other_size);
    read_all(other.data(), other.size());
    std::array<T, 2> result{own, decode<T>(other)};
    if (self == 1) std::swap(result[0], result[1]);
    return result;
  }

 private:
  static void write_all(const void* data, std::size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(data);
    for (std::size_t at = 0; at < size;) {
      const ssize_t n = ::write(kRankSocket, bytes + at, size - at);
      if (n <= 0) throw_error(ErrorCode::kUnavailable, "the other rank is gone");
      at += n;
    }
  }
  static void read_all(void* data, std::size_t size) {
    auto* const bytes = static_cast<std::byte*>(data);
    for (std::size_t at = 0; at < size;) {
      const ssize_t n = ::read(kRankSocket, bytes + at, size - at);
      if (n <= 0) throw_error(ErrorCode::kUnavailable, "the other rank is gone");
      at += n;
    }
  }
};

/// Device of a run of two devices, set up without a driver.
class Rank {
 public:
  Rank(std::uint32_t self, Peer& peer, const Case& layout, DeviceKind kind,
       mesh::GpuTransfers transfers, std::uint64_t epoch)
      : self_(self),
        peer_(peer),
        setup_(setup_of(self, layout, kind, epoch)),
        engine_(setup_, batches_) {
    mesh::ParallelConfig config = layout_of(layout, "1f1b", transfer::ReshardAlgorithm::kWeft);
    config.gpu_transfers = transfers;
    mesh::PlanConditions conditions;
    if (kind == DeviceKind::kCuda) {
      for (const transfer::DeviceCapabilities& place : peer.exchange(self, engine_.place()))
        conditions.device_places.push_back(place);
    }
    plan_ = mesh::make_training_plan(config, small_gpt(), places_of(layout), conditions);
    const transfer::PeerAddress own{setup_.data.device, setup_.data.host, engine_.address()};
    const auto addresses = peer.exchange(self, own);
    engine_.connect({addresses[1 - self]});
    if (!plan_.collectives.groups.empty()) {
      mesh::CommunicatorSetup communicators;
      communicators.changes = transfer::CommunicatorCache().ensure(plan_.collectives.groups);
      for (const auto& ids : peer.exchange(self, engine_.make_ids(communicators.changes.create)))
        communicators.ids.insert(communicators.ids.end(), ids.begin(), ids.end());
      engine_.open_communicators(communicators);
    }
    engine_.install(plan_.train.programs[self]);
    engine_.initialize(7);
  }

  const mesh::TrainingPlan& plan() const { return plan_; }

  mesh::StepResult run(std::uint64_t step) {
    const auto reports = peer_.exchange(self_, run_alone(step, std::chrono::seconds(60)));
    return mesh::combine({reports[0], reports[1]});
  }
  /// Runs one step. Cancels the device's collectives after `patience`.
  mesh::StepReport run_alone(std::uint64_t step, Nanoseconds patience) {
    std::mutex mutex;
    std::condition_variable changed;
    bool rung = false;  // guarded by mutex
    const auto interpreter = engine_.begin(train_step(step), [&] {
      const std::lock_guard lock(mutex);
      rung = true;
      changed.notify_one();
    });
    const SteadyClock clock;
    const TimePoint begun = clock.now();
    bool cancelled = false;
    try {
      while (interpreter->advance() == mesh::Interpreter::Progress::kBlocked) {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return rung; });
        rung = false;
        if (cancelled || clock.now() - begun < patience) continue;
        engine_.cancel_collectives(Error(ErrorCode::kCancelled, "the test waits no longer"));
        cancelled = true;
      }
    } catch (const Error& error) {
      engine_.abandon(*interpreter, error);
      throw;
    }
    return interpreter->finish();
  }

 private:
  static mesh::DeviceSetup setup_of(std::uint32_t self, const Case& layout, DeviceKind kind,
                                    std::uint64_t epoch) {
    const mesh::TrainingPlan plan = plan_of(layout, "1f1b", transfer::ReshardAlgorithm::kWeft);
    const transfer::DeviceId device(self);
    mesh::DeviceSetup setup{.data = {device, plan.topology.host_of(device), epoch, "lo"}};
    setup.config = {.kind = kind, .share_gpu = true};
    setup.slot = self;
    setup.data.secret = test::cluster_token().bytes();
    return setup;
  }

  const std::uint32_t self_;
  Peer& peer_;
  RandomBatches batches_{{kRows, kVocabulary, 11}};
  const mesh::DeviceSetup setup_;
  mesh::TrainingPlan plan_;
  mesh::DeviceEngine engine_;
};

std::vector<Case> cases_of_two() {
  return {{"two_stages", {{1, 1}, {1, 1}}, {2, 1}},
          {"data_2", {{2, 1}}, {3}},
          {"tensor_2", {{1, 2}}, {3}}};
}

std::vector<mesh::StepResult> train_as(Rank& rank) {
  std::vector<mesh::StepResult> results;
  for (std::uint64_t step = 0; step < kStepsOfRank; ++step) results.push_back(rank.run(step));
  return results;
}

void expect_losses_of_the_cpu(const Case& layout, const std::vector<mesh::StepResult>& results) {
  RandomBatches batches({kRows, kVocabulary, 11});
  const mesh::TrainingPlan plan = plan_of(layout, "1f1b", transfer::ReshardAlgorithm::kWeft);
  mesh::InProcessTraining expected(plan, batches, 7);
  for (std::uint64_t step = 0; step < kStepsOfRank; ++step) {
    const double loss = expected.run(train_step(step)).loss;
    EXPECT_NEAR(results[step].loss, loss, 1e-3 * loss) << layout.name << " step " << step;
  }
}

void train_on_cpus(std::uint32_t self, Peer& peer) {
  std::uint64_t epoch = 0;
  for (const Case& layout : cases_of_two()) {
    Rank rank(self, peer, layout, DeviceKind::kCpu, mesh::GpuTransfers::kAuto, ++epoch);
    expect_losses_of_the_cpu(layout, train_as(rank));
    peer.exchange(self, 0);
  }
}

void train_on_a_gpu(std::uint32_t self, Peer& peer) {
  std::uint64_t epoch = 0;
  for (const Case& layout : cases_of_two()) {
    std::array<std::vector<mesh::StepResult>, 2> results;
    for (const auto transfers : {mesh::GpuTransfers::kHost, mesh::GpuTransfers::kAuto}) {
      Rank rank(self, peer, layout, DeviceKind::kCuda, transfers, ++epoch);
      const bool by_nccl = transfers == mesh::GpuTransfers::kAuto;
      std::printf("rank %u: %s %s\n", self, layout.name.c_str(),
                  by_nccl ? "by NCCL" : "through host memory");
      std::fflush(stdout);
      EXPECT_EQ(rank.plan().collectives.library.starts_with("NCCL"), by_nccl)
          << mesh::describe(rank.plan());
      results[by_nccl ? 1 : 0] = train_as(rank);
      peer.exchange(self, 0);
    }
    expect_losses_of_the_cpu(layout, results[0]);
    for (std::uint64_t step = 0; step < kStepsOfRank; ++step) {
      EXPECT_EQ(results[0][step].loss, results[1][step].loss) << layout.name << " step " << step;
      EXPECT_EQ(results[0][step].grad_norm, results[1][step].grad_norm)
          << layout.name << " step " << step;
    }
  }
}

/// Rank 1 skips the second step. Rank 0's step is cancelled, and both start over in a new epoch.
void give_up_and_begin_again(std::uint32_t self, Peer& peer) {
  const Case layout = cases_of_two().front();
  {
    Rank rank(self, peer, layout, DeviceKind::kCuda, mesh::GpuTransfers::kAuto, 100);
    rank.run(0);
    if (self == 0) {
      EXPECT_THAT([&] { rank.run_alone(1, std::chrono::seconds(2)); },
                  throws_error(ErrorCode::kCancelled, "the test waits no longer"));
    }
    peer.exchange(self, 0);
  }
  Rank rank(self, peer, layout, DeviceKind::kCuda, mesh::GpuTransfers::kAuto, 101);
  expect_losses_of_the_cpu(layout, train_as(rank));
}

TEST(TrainingRank, DISABLED_Work) {
  const char *number = std::getenv("WEFT_TRAINING_RANK"),
             *device = std::getenv("WEFT_TRAINING_DEVICE");
  if (number == nullptr || device == nullptr) GTEST_SKIP() << "only as a child of TwoProcesses";
  ::alarm(200);  // Ends a process that hangs.
  const std::uint32_t self = std::atoi(number);
  Peer peer;
  try {
    if (std::string(device) == "cpu") return train_on_cpus(self, peer);
    train_on_a_gpu(self, peer);
    if (!HasFailure()) give_up_and_begin_again(self, peer);
  } catch (const Error& error) {
    ADD_FAILURE() << "rank " << self << ": " << error.describe();
  }
}

void run_two_processes(const std::string& device) {
  run_two_ranks("TrainingRank.DISABLED_Work", "WEFT_TRAINING_RANK",
                {"WEFT_TRAINING_DEVICE=" + device});
}

TEST(TwoProcesses, TrainOnTheCpu) { run_two_processes("cpu"); }

TEST(TwoProcesses, TrainOnOneGpuByNcclAndThroughHostMemoryWithTheSameBits) {
  if (const std::string missing = cuda_support(plugin_search(plugin_places())).unavailable_reason;
      !missing.empty())
    GTEST_SKIP() << "skipped: " << missing;
  run_two_processes("gpu");
}

}  // namespace
}  // namespace weft::test
