// Tests the programs of the paper's GPT under Vocabulary Parallelism (arXiv 2411.05288) at full
// size: balance, activations in flight, barriers.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "apps/bench/pipeline/bench_case.h"
#include "apps/bench/pipeline/pipeline_bench.h"
#include "apps/bench/pipeline/pipeline_model.h"
#include "apps/bench/pipeline/workload_costs.h"
#include "mesh/costs/plan_costs.h"
#include "mesh/costs/program_seconds.h"
#include "mesh/plan/training_plan.h"
#include "mesh/schedule/simulate.h"

namespace weft::apps {
namespace {

using mesh::VocabularyMode;

PipelineModel gpt_4b(VocabularyMode mode, const std::string& schedule, int stages,
                     std::int64_t thousands, int microbatches) {
  PipelineModelRequest request;
  request.name = "gpt-4b";
  request.schedule = schedule;
  request.vocabulary_mode = mode;
  request.stages = stages;
  request.vocabulary = thousands * 1024;
  request.microbatches = microbatches;
  request.byte_scale = 0.5;  // keeps every token
  PipelineModel model = make_pipeline_model(request);
  model.layout.payload = mesh::Payload::kSignals;
  model.layout.resharding = transfer::ReshardAlgorithm::kBroadcast;  // plans fast
  model.conditions.checkpoint_buffer = std::uint64_t{1}
                                       << 40;  // one part; no checkpoint is written
  return model;
}

mesh::TrainingPlan plan_of_gpt(const PipelineModel& model) {
  return mesh::make_training_plan(model.layout, model.graphs,
                                  mesh::predict_places(model.layout, hosts_of(model)),
                                  model.conditions);
}

/// Returns the largest value divided by the smallest.
double spread(const std::vector<double>& values) {
  return *std::ranges::max_element(values) / *std::ranges::min_element(values);
}

std::vector<double> busy_seconds(const mesh::TrainingPlan& plan, double flops) {
  std::vector<double> busy;
  for (const auto& of_device : program_seconds(plan, mesh::cost_model_seconds(flops)))
    busy.push_back(std::accumulate(of_device.begin(), of_device.end(), 0.0));
  return busy;
}

std::vector<double> persistent_bytes(const mesh::TrainingPlan& plan) {
  std::vector<double> bytes;
  for (const mesh::Program& program : plan.train.programs) {
    bytes.push_back(0);
    for (const mesh::PersistentBlock& block : program.persistents)
      bytes.back() += static_cast<double>(block.bytes);
  }
  return bytes;
}

struct Shared {
  VocabularyMode mode;
  int stages;
  std::int64_t thousands;
};

class SharedVocabulary : public testing::TestWithParam<Shared> {};

TEST_P(SharedVocabulary, WorkAndParametersAreTheSameOnAllDevices) {
  const auto& [mode, stages, thousands] = GetParam();
  const PipelineModel model = gpt_4b(mode, "1f1b", stages, thousands, 2 * stages);
  const mesh::TrainingPlan plan = plan_of_gpt(model);
  EXPECT_LE(spread(busy_seconds(plan, model.device_flops)), 1.03);
  const std::vector<double> bytes = persistent_bytes(plan);
  EXPECT_LE(spread(bytes), 1.03);
  // Value, gradient and two moments of each parameter, and at most 1 % more.
  const double parameters =
      static_cast<double>(model.graphs.train.graph.num_parameter_elements()) * 4 * sizeof(float);
  EXPECT_LE(std::accumulate(bytes.begin(), bytes.end(), 0.0), 1.01 * parameters);
}

TEST_P(SharedVocabulary, UnderVHalfSoIsThePeakOfMemory) {
  const auto& [mode, stages, thousands] = GetParam();
  const mesh::TrainingPlan plan =
      plan_of_gpt(gpt_4b(mode, "v-half", stages, thousands, 2 * stages));
  std::vector<double> peak = persistent_bytes(plan);
  for (std::size_t d = 0; d < peak.size(); ++d)
    peak[d] += static_cast<double>(plan.train.programs[d].arena_bytes);
  EXPECT_LE(spread(peak), 1.03);
}

INSTANTIATE_TEST_SUITE_P(All, SharedVocabulary,
                         testing::Values(Shared{VocabularyMode::kVocab1, 4, 32},
                                         Shared{VocabularyMode::kVocab2, 4, 256},
                                         Shared{VocabularyMode::kVocab1, 8, 256},
                                         Shared{VocabularyMode::kVocab2, 8, 64}),
                         [](const auto& test) {
                           return (test.param.mode == VocabularyMode::kVocab1 ? "vocab1_"
                                                                              : "vocab2_") +
                                  std::to_string(test.param.stages) + "_" +
                                  std::to_string(test.param.thousands) + "k";
                         });

/// Returns, per microbatch, the index of the instruction that begins an action of a stage (with
/// `go_on`: resumes it). -1 if there is none.
std::vector<int> begins_of(const mesh::Program& program, int stage, mesh::ActionKind kind,
                           int microbatches, bool go_on = false) {
  std::vector<int> places(microbatches, -1);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* begin = std::get_if<mesh::BeginAction>(&program.instructions[i]);
    if (begin == nullptr || begin->stage != stage || begin->kind != kind ||
        begin->resumes_action != go_on)
      continue;
    EXPECT_EQ(places[begin->microbatch], -1) << "twice";
    places[begin->microbatch] = static_cast<int>(i);
  }
  return places;
}

class Barriers : public testing::TestWithParam<VocabularyMode> {};

TEST_P(Barriers, EachAddsAnIntervalAndAMicrobatchUnderWay) {
  constexpr int kStages = 8, kMicrobatches = 20, kLast = kStages - 1;
  const int barriers = vocabulary_barriers(GetParam());
  const PipelineModel model = gpt_4b(GetParam(), "1f1b", kStages, 32, kMicrobatches);
  const mesh::TrainingPlan plan = plan_of_gpt(model);
  const auto last = [&](mesh::ActionKind kind) {
    return begins_of(plan.train.programs[kLast], kLast, kind, kMicrobatches);
  };
  const std::vector<int> forward = last(mesh::ActionKind::kForward),
                         backward = last(mesh::ActionKind::kBackward),
                         grads = last(mesh::ActionKind::kVocabularyGrads);
  for (int j = 0; j + barriers < kMicrobatches; ++j) {
    // Each barrier adds the forward of one more microbatch before a backward. With two barriers,
    // the backward also waits for T.
    EXPECT_LT(forward[j + barriers], backward[j]) << j;
    if (j + barriers + 1 < kMicrobatches) {
      EXPECT_GT(forward[j + barriers + 1], backward[j]) << j;
    }
    if (barriers == 2) {
      EXPECT_LT(grads[j], backward[j]) << j;
    }
  }
  // The arena holds the outputs that layers keep, and little else.
  const mesh::ScheduleSimulation simulated = simulate(
      plan.schedule, emulated_costs(plan, model.device_flops), simulation_options_of(plan));
  const Graph& graph = model.graphs.train.graph;
  double kept = 0;
  for (const Node& node : graph.nodes())
    if (node.op.kind == OpKind::kEmulatedBlock)
      for (const ValueId output : node.outputs)
        kept += static_cast<double>(graph.value(output).type.bytes());
  kept /= kStages;
  for (int r = 0; r < kStages; ++r) {
    SCOPED_TRACE(r);
    const int under_way = kStages - r + barriers;
    EXPECT_EQ(static_cast<int>(static_cast<double>(plan.train.programs[r].arena_bytes) / kept),
              under_way);
    EXPECT_EQ(static_cast<int>(simulated.actors[r].peak / kept), under_way);
  }
}

/// Checks that the second half of S interrupts backwards. Otherwise the output layer's input
/// gradient would wait until a backward ends.
TEST(ScoresOfVocab2, GoOnAmidBackwards) {
  constexpr int kStages = 8, kMicrobatches = 20;
  const PipelineModel model = gpt_4b(VocabularyMode::kVocab2, "1f1b", kStages, 256, kMicrobatches);
  const mesh::TrainingPlan plan = plan_of_gpt(model);
  int amid = 0;
  for (int r = 0; r < kStages; ++r) {
    const auto begins = [&](mesh::ActionKind kind, bool go_on) {
      return begins_of(plan.train.programs[r], r, kind, kMicrobatches, go_on);
    };
    const std::vector<int> scores = begins(mesh::ActionKind::kVocabularyScores, false),
                           rest = begins(mesh::ActionKind::kVocabularyScores, true),
                           backward = begins(mesh::ActionKind::kBackward, false),
                           later = begins(mesh::ActionKind::kBackward, true);
    for (int j = 0; j < kMicrobatches; ++j) {
      EXPECT_LT(scores[j], rest[j]) << r << " " << j;
      amid += later[j] > backward[j] ? 1 : 0;
    }
  }
  EXPECT_GT(amid, kStages * kMicrobatches / 4);
}

/// Returns the simulated seconds of a benchmark case, by arm.
std::map<std::string, double> simulated_seconds(const std::string& name) {
  PipelineBenchOptions options;
  options.cases = {name};
  std::map<std::string, double> seconds;
  for (const ArmResult& arm : PipelineBench(nullptr, {}).run(pipeline_cases(options).front()).arms)
    seconds[schedule_of(arm.arm) + (arm.arm.is_signal() ? "" : ", tensors")] = arm.median();
  return seconds;
}

/// Expected speedups of an independent simulation, which counts intervals and one more barrier.
TEST(SharedVocabularyIsFaster, AsMuchAsItsIntervalsSay) {
  auto seconds = simulated_seconds("vocab-256k");
  EXPECT_GE(seconds["1f1b"] / seconds["1f1b, vocab-1"], 0.97 * 2.067);
  EXPECT_GE(seconds["1f1b"] / seconds["1f1b, vocab-2"], 0.97 * 2.082);
  EXPECT_GE(seconds["1f1b, redistributed"] / seconds["1f1b, vocab-2"], 0.97 * 1.30);
  EXPECT_LE(seconds["1f1b, vocab-2"], 1.03 * seconds["1f1b, interlaced"]);
}

TEST(SharedVocabularyIsFaster, OverLinksThatItsInputTakesAQuarterOfAForwardFor) {
  auto seconds = simulated_seconds("vocab-links-64k");
  EXPECT_GE(seconds["eager-1f1b, vocab-2"], 0.97 * seconds["eager-1f1b, vocab-2, tensors"]);
  EXPECT_LT(seconds["1f1b, vocab-2, tensors"], seconds["1f1b, interlaced, tensors"]);
}

INSTANTIATE_TEST_SUITE_P(All, Barriers,
                         testing::Values(VocabularyMode::kVocab1, VocabularyMode::kVocab2),
                         [](const auto& test) {
                           return test.param == VocabularyMode::kVocab1 ? "two" : "one";
                         });

}  // namespace
}  // namespace weft::apps
