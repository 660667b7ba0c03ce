// Tests the program segments that devices record and replay: their number, and the effect of moved
// memory, changed programs and failed steps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <variant>

#include "core/base/error.h"
#include "mesh/program/capture_segments.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/support/detached_device.h"
#include "tests/support/thrown_error.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

mesh::TrainingPlan two_stages(const std::string& schedule, int microbatches = kMicrobatches) {
  const Case c = master_cases()[1];
  mesh::ParallelConfig layout = layout_of(c, schedule, transfer::ReshardAlgorithm::kWeft);
  layout.microbatches = microbatches;
  return mesh::make_training_plan(layout, small_gpt(), places_of(c));
}

struct SegmentCounts {
  std::size_t segments = 0, works = 0, instructions = 0;
};

SegmentCounts count_segments(const mesh::Program& program) {
  SegmentCounts counts;
  std::set<std::uint32_t> works;
  for (const mesh::CaptureSegment& segment : mesh::find_capture_segments(program)) {
    ++counts.segments;
    works.insert(segment.work);
    counts.instructions += segment.end - segment.begin;
  }
  counts.works = works.size();
  return counts;
}

std::size_t works_of(const std::vector<mesh::Program>& programs) {
  std::size_t works = 0;
  for (const mesh::Program& program : programs) works += count_segments(program).works;
  return works;
}

mesh::StepRequest validation_step(std::uint64_t run) {
  mesh::StepRequest request = train_step(run);
  request.program = mesh::kValidateProgram;
  request.split = mesh::Split::kValidation;
  return request;
}

TEST(RecordedSegments, AreAsManyAsThePlacesOfTensorsNotAsTheMicrobatches) {
  for (const std::string schedule : {"1f1b", "eager-1f1b", "zb-h1"}) {
    const mesh::TrainingPlan some = two_stages(schedule, 16), many = two_stages(schedule, 64);
    for (std::size_t i = 0; i < some.train.programs.size(); ++i) {
      SCOPED_TRACE(schedule + " on " + some.train.programs[i].device_name);
      const SegmentCounts with_some = count_segments(some.train.programs[i]);
      const SegmentCounts with_many = count_segments(many.train.programs[i]);
      EXPECT_EQ(with_many.works, with_some.works);
      EXPECT_EQ(with_many.segments, 4 * with_some.segments);
      EXPECT_LT(with_many.works, with_many.segments / 2);
      EXPECT_EQ(with_many.instructions, 4 * with_some.instructions);
    }
  }
}

TEST(RecordedSegments, HoldAlmostAllOps) {
  for (const mesh::Program& program : two_stages("1f1b").train.programs) {
    const auto computes = [](const mesh::Instruction& instruction) {
      return std::holds_alternative<mesh::Run>(instruction) ||
             std::holds_alternative<mesh::Accumulate>(instruction);
    };
    const std::size_t computing = std::ranges::count_if(program.instructions, computes);
    EXPECT_GE(count_segments(program).instructions * 20, computing * 19) << program.device_name;
  }
}

/// Trains on devices that record, and the same on the CPU.
class Recorded : public testing::Test {
 protected:
  void expect_equal(const mesh::StepRequest& request) {
    const mesh::StepResult on_cpu = expected.run(request), result = training.run(request);
    EXPECT_EQ(result.loss, on_cpu.loss);
    EXPECT_EQ(result.grad_norm, on_cpu.grad_norm);
  }

  /// Batches that fail at a microbatch or have invalid tokens on demand.
  class Batches final : public mesh::BatchSource {
   public:
    void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
              int microbatches, const Region& region, std::span<std::byte> out) override {
      if (microbatch == meshes_fail_at)
        throw_error(ErrorCode::kUnavailable, "no batch {}", microbatch);
      batches.read(input, split, step, microbatch, microbatches, region, out);
      if (outside_the_table && input == "tokens") std::ranges::fill(out, std::byte{0x70});
    }
    int meshes_fail_at = -1;
    bool outside_the_table = false;

   private:
    RandomBatches batches{{kRows, kVocabulary, 11}};
  };

  const mesh::TrainingPlan plan = two_stages("1f1b");
  Batches batches;
  DetachedDevice device{{.shuffle_seed = 5}};
  mesh::InProcessTraining expected{plan, batches, 7}, training{plan, batches, 7, {}, &device};
};

TEST_F(Recorded, TrainingAndValidationTakeTurns) {
  std::uint64_t run = 0;
  for (int round = 0; round < 4; ++round) {
    expect_equal(train_step(run++));
    expect_equal(validation_step(run++));
  }
  const std::size_t works = works_of(plan.train.programs) + works_of(plan.validate.programs);
  EXPECT_EQ(device.recordings().made, works);
  EXPECT_EQ(device.recordings().alive, works);
}

TEST_F(Recorded, AProgramThatNeedsALargerArenaEndsAllRecordingsAndTheyAreMadeAnew) {
  for (std::uint64_t step = 0; step < 3; ++step) expect_equal(train_step(step));
  const std::size_t works = device.recordings().made;
  EXPECT_GT(works, 0u);
  mesh::TrainingPlan larger = plan;
  for (mesh::Program& program : larger.validate.programs)
    program.arena_bytes += std::size_t{10} << 20;
  training.use(larger);
  EXPECT_EQ(device.recordings().alive, 0u)
      << "the addresses that they hold are no longer the arena's";
  const std::size_t replays = device.recordings().replays;
  for (std::uint64_t step = 3; step < 6; ++step) {
    expect_equal(train_step(step));
  }
  EXPECT_EQ(device.recordings().made, 2 * works);
  EXPECT_EQ(device.recordings().alive, works);
  EXPECT_GT(device.recordings().replays, replays);
  training.use(plan);
}

TEST_F(Recorded, AnotherLayoutOfTheSameNamesIsRecordedAnew) {
  for (std::uint64_t step = 0; step < 3; ++step) expect_equal(train_step(step));
  const mesh::TrainingPlan other = two_stages("gpipe");
  training.use(other);
  EXPECT_EQ(device.recordings().alive, 0u);
  for (std::uint64_t step = 3; step < 6; ++step) expect_equal(train_step(step));
  EXPECT_EQ(device.recordings().alive, works_of(other.train.programs));
  training.use(plan);
}

TEST_F(Recorded, AStepThatFailsOnItsWayIsRunAgainWithWhatWasRecorded) {
  const mesh::TrainingPlan one =
      plan_of(master_cases()[0], "1f1b", transfer::ReshardAlgorithm::kWeft);
  DetachedDevice alone{{.shuffle_seed = 6}};
  mesh::InProcessTraining on_cpu(one, batches, 7), again(one, batches, 7, {}, &alone);
  for (std::uint64_t step = 0; step < 5; ++step) {
    batches.meshes_fail_at = step == 4 ? 1 : 2;
    EXPECT_THAT([&] { again.run(train_step(step)); },
                throws_error(ErrorCode::kUnavailable, "no batch"));
    batches.meshes_fail_at = -1;
    EXPECT_EQ(again.run(train_step(step)).loss, on_cpu.run(train_step(step)).loss);
  }
  EXPECT_EQ(alone.recordings().made, works_of(one.train.programs));
}

TEST_F(Recorded, AFailureOfReplayedWorkEndsTheStepAsOthersDo) {
  for (std::uint64_t step = 0; step < 3; ++step) expect_equal(train_step(step));
  batches.outside_the_table = true;
  EXPECT_THAT([&] { training.run(train_step(3)); },
              throws_error(ErrorCode::kInvalidArgument, "on the device, at "));
}

}  // namespace
}  // namespace weft::test
