// Tests that interleaved compounds give the bits of the same compounds whose members run one after
// the other, and of plain microbatches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "mesh/schedule/action_graph.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"
#include "tests/support/thrown_error.h"
#include "tests/training/layouts/gpt_on_layouts.h"
#include "tests/training/same_bits.h"

namespace weft::test {
namespace {

using mesh::Duplex;
using mesh::GatherFrequency;

constexpr int kDuplexSteps = 3;

struct DuplexCase {
  std::string name;
  std::vector<LayoutMesh> meshes;
  std::string schedule = "1f1b";
  Duplex duplex = Duplex::kHalves;
  int chunks = 1;  ///< Stages per mesh, in a V.
  bool recompute = false;
  mesh::VocabularyMode vocabulary = mesh::VocabularyMode::kLast;
  /// True if the members of a compound add up their gradients before these are reduced: then plain
  /// microbatches give other bits.
  bool adds_before = false;
};

/// Parts of a step: halves, or whole microbatches.
constexpr int kParts = 6;

/// How the members of compounds run.
enum class Members : std::uint8_t { kInterleaved, kOneByOne, kPlain };

mesh::TrainingPlan duplex_plan(const DuplexCase& c, Members members, DType precision) {
  apps::GptShape shape = gpt_shape(2, 4);
  shape.precision = precision;
  mesh::ParallelConfig layout;
  mesh::PlanConditions conditions;
  // Computation takes about as long as communication.
  conditions.flops_per_second = 4e8;
  conditions.orders_steps = members != Members::kOneByOne;
  int host = 0;
  for (std::size_t m = 0; m < c.meshes.size(); ++m) {
    mesh::MeshConfig config{"mesh" + std::to_string(m), {}, c.meshes[m].axes};
    if (!c.meshes[m].layout.empty())
      config.layout =
          mesh::LayoutChoice{c.meshes[m].layout, {}, c.meshes[m].shard_data, c.meshes[m].gather};
    layout.meshes.push_back(std::move(config));
    for (std::int64_t d = 0; d < c.meshes[m].devices(); ++d)
      conditions.links["host" + std::to_string(host++)] = 25e6;
  }
  const int meshes = static_cast<int>(c.meshes.size());
  const std::vector<int> placed = mesh::place_stages(
      c.chunks == 1 ? mesh::StagePlacement::kOnePerActor : mesh::StagePlacement::kVShaped, meshes,
      c.chunks);
  for (const int mesh : placed)
    layout.stages.push_back(
        {mesh, static_cast<int>(shape.layers / std::ssize(placed)), c.recompute});
  layout.schedule = c.schedule;
  layout.vocabulary = c.vocabulary;
  layout.microbatches = c.duplex == Duplex::kHalves ? kParts / 2 : kParts;
  layout.duplex = c.duplex;
  if (members == Members::kPlain) {
    layout.duplex = Duplex::kOff;
    layout.microbatches = kParts;
  }
  return mesh::make_training_plan(layout, gpt_of(shape, kParts), places_on(c.meshes), conditions);
}

std::vector<mesh::StepResult> train_duplex(const mesh::TrainingPlan& plan,
                                           const transfer::LoopbackOptions& options = {}) {
  const apps::GptShape shape = gpt_shape(2, 4);
  RandomBatches batches({shape.batch, shape.vocabulary, 11});
  mesh::InProcessTraining training(plan, batches, 7, options);
  std::vector<mesh::StepResult> results;
  for (int step = 0; step < kDuplexSteps; ++step) results.push_back(training.run(train_step(step)));
  return results;
}

/// Returns the marks by which an action goes on after another one, per step and device.
std::int64_t num_switches(const mesh::TrainingPlan& plan) {
  std::int64_t switches = 0;
  for (const mesh::Instruction& instruction : plan.train.programs.front().instructions) {
    const auto* begin = std::get_if<mesh::BeginAction>(&instruction);
    switches += begin != nullptr && begin->resumes_action && !mesh::is_vocabulary_pass(begin->kind);
  }
  return switches;
}

/// Returns how often a device runs each op.
std::map<std::string, int> op_counts(const mesh::Program& program) {
  std::map<std::string, int> counts;
  for (const mesh::Instruction& instruction : program.instructions)
    if (const auto* run = std::get_if<mesh::Run>(&instruction))
      ++counts[to_string(program.ops[run->op]) + (run->accumulate != 0 ? ", adds" : "")];
  return counts;
}

std::vector<DuplexCase> duplex_cases() {
  const LayoutMesh cube{"3d", {{"i", 2}, {"j", 2}, {"l", 2}}};
  const LayoutMesh line{"1d", {{"tensor", 2}}};
  const auto sharded = [](GatherFrequency gather) {
    return LayoutMesh{"fsdp", {{"data", 4}}, gather};
  };
  const auto square = [](GatherFrequency gather) {
    return LayoutMesh{"2d", {{"r", 2}, {"c", 2}}, gather};
  };
  return {
      {"line", {line}},
      {"line_zb", {line}, "zb-h1"},
      {"line_recomputed", {line}, "1f1b", Duplex::kHalves, 1, true},
      {"line_and_data", {{"1d", {{"data", 2}, {"t", 2}}}}},
      {"line_sequence", {{"1d-sequence", {{"tensor", 2}}}}},
      {"line_sequence_recomputed",
       {{"1d-sequence", {{"tensor", 2}}}},
       "zb-h1",
       Duplex::kHalves,
       1,
       true},
      {"square", {square(GatherFrequency::kMicrobatch)}},
      {"square_used",
       {square(GatherFrequency::kUse)},
       "1f1b",
       Duplex::kHalves,
       1,
       false,
       mesh::VocabularyMode::kLast,
       true},
      {"squares", {{"2.5d", {{"d", 2}, {"r", 2}, {"c", 2}}}}},
      {"cube", {cube}},
      {"cube_zb", {cube}, "zb-h1"},
      {"sharded_data", {sharded(GatherFrequency::kMicrobatch)}},
      {"sharded_data_step", {sharded(GatherFrequency::kStep)}},
      {"sharded_data_use",
       {sharded(GatherFrequency::kUse)},
       "zb-h1",
       Duplex::kHalves,
       1,
       false,
       mesh::VocabularyMode::kLast,
       true},
      {"line_crossed", {line}, "1f1b", Duplex::kCross},
      {"sharded_data_crossed",
       {sharded(GatherFrequency::kMicrobatch)},
       "eager-1f1b",
       Duplex::kCross},
      {"sharded_data_use_crossed", {sharded(GatherFrequency::kUse)}, "1f1b", Duplex::kCross},
      {"cube_crossed", {cube}, "1f1b", Duplex::kCross, 1, true},
      {"two_lines", {line, line}},
      {"two_lines_zb", {line, line}, "zb-h1"},
      {"two_lines_crossed", {line, line}, "1f1b", Duplex::kCross},
      {"two_lines_v_half", {line, line}, "v-half", Duplex::kHalves, 2},
      {"two_lines_dualpipe", {line, line}, "dualpipe-v", Duplex::kCross, 2},
      {"two_lines_dualpipe_halves", {line, line}, "dualpipe-v", Duplex::kHalves, 2},
      {"two_sharded_data", {{"fsdp", {{"data", 2}}}, {"fsdp", {{"data", 2}}}}, "zb-h1"},
      {"two_lines_vocab_1",
       {line, line},
       "1f1b",
       Duplex::kHalves,
       1,
       false,
       mesh::VocabularyMode::kVocab1},
      {"two_lines_vocab_2",
       {line, line},
       "1f1b",
       Duplex::kHalves,
       1,
       false,
       mesh::VocabularyMode::kVocab2},
  };
}

class DuplexMaster : public testing::TestWithParam<std::tuple<DuplexCase, DType>> {};

TEST_P(DuplexMaster, InterleavedMembersGiveTheBitsOfMembersOneByOne) {
  const auto& [c, precision] = GetParam();
  const mesh::TrainingPlan interleaved = duplex_plan(c, Members::kInterleaved, precision),
                           one_by_one = duplex_plan(c, Members::kOneByOne, precision),
                           plain = duplex_plan(c, Members::kPlain, precision);
  EXPECT_GT(num_switches(interleaved), 0);
  // Passes of a shared vocabulary may stop any action.
  if (c.vocabulary == mesh::VocabularyMode::kLast) {
    EXPECT_EQ(num_switches(one_by_one), 0);
  }
  for (std::size_t device = 0; device < interleaved.train.programs.size(); ++device)
    EXPECT_EQ(op_counts(interleaved.train.programs[device]),
              op_counts(one_by_one.train.programs[device]));
  const auto results = train_duplex(interleaved);
  expect_same_bits(results, train_duplex(one_by_one));
  if (!c.adds_before) expect_same_bits(results, train_duplex(plain));
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 3;
  expect_same_bits(train_duplex(interleaved, shuffled), results);
}

INSTANTIATE_TEST_SUITE_P(All, DuplexMaster,
                         testing::Combine(testing::ValuesIn(duplex_cases()),
                                          testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& test) {
                           const bool is_half = std::get<1>(test.param) == DType::kBF16;
                           return std::get<0>(test.param).name + (is_half ? "_bf16" : "");
                         });

TEST(OddCompounds, GiveTheBitsOfPlainActions) {
  std::int64_t switches = 0;
  for (const char* rows : {
           "(0F0;0F1;0F2)OVERLAP_F_B,(0B0;0B1;0B2)OVERLAP_F_B",
           "0F0,0F1,0F2,(0I0;0W0)OVERLAP_F_B,(0I1;0W1)OVERLAP_F_B,(0I2;0W2)OVERLAP_F_B",
           "0F0,(0F1;0I0)OVERLAP_F_B,0I1,(0F2;0W0)OVERLAP_F_B,(0W1;0I2)OVERLAP_F_B,0W2",
           // A recomputation beside its own forward: W needs the forward's values later.
           "(0F0;0I0)OVERLAP_F_B,0F1,0I1,0W0,0W1,0F2,0B2",
           "(0F0;0B0)OVERLAP_F_B,(0F1;0F2;0B1)OVERLAP_F_B,0B2",
       }) {
    for (const bool recompute : {false, true}) {
      SCOPED_TRACE(testing::Message() << rows << (recompute ? ", recomputed" : ""));
      const apps::GptShape shape = gpt_shape(2, 2);
      const auto results_of = [&](Duplex duplex) {
        mesh::ParallelConfig layout;
        mesh::PlanConditions conditions{.flops_per_second = 4e8};
        mesh::MeshConfig config{"mesh0", {}, {{"tensor", 2}}};
        config.layout = mesh::LayoutChoice{"1d", {}};
        layout.meshes.push_back(std::move(config));
        layout.stages.push_back({0, 2, recompute});
        layout.microbatches = 3;
        layout.own_schedule = mesh::read_schedule(std::string(rows) + "\n", "test").schedule;
        layout.duplex = duplex;
        for (const char* host : {"host0", "host1"}) conditions.links[host] = 25e6;
        const mesh::TrainingPlan plan = mesh::make_training_plan(
            layout, gpt_of(shape, 3), places_on({{"1d", {{"tensor", 2}}}}), conditions);
        if (duplex == Duplex::kCross) switches += num_switches(plan);
        RandomBatches batches({shape.batch, shape.vocabulary, 11});
        mesh::InProcessTraining training(plan, batches, 7);
        std::vector<mesh::StepResult> results;
        for (int step = 0; step < kDuplexSteps; ++step)
          results.push_back(training.run(train_step(step)));
        return results;
      };
      expect_same_bits(results_of(Duplex::kCross), results_of(Duplex::kOff));
    }
  }
  EXPECT_GT(switches, 20);
}

/// Joins neighbouring actions of a schedule at random, as long as compounds do not wait for each
/// other.
mesh::Schedule with_random_compounds(mesh::Schedule schedule, std::mt19937& random) {
  const auto edges = mesh::chain_edges(schedule.stages);
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    for (std::size_t i = 1; i < schedule.actors[actor].size(); ++i) {
      if (random() % 2 == 0) continue;
      schedule.actors[actor][i].joins_previous = true;
      if (!mesh::ActionGraph(schedule, edges).find_cycle().empty())
        schedule.actors[actor][i].joins_previous = false;
    }
  }
  return schedule;
}

/// Returns the collectives that a device starts, in order.
std::vector<std::pair<std::string, int>> collectives_of(const mesh::Program& program) {
  std::vector<std::pair<std::string, int>> started;
  for (const mesh::Instruction& instruction : program.instructions) {
    const auto* start = std::get_if<mesh::Start>(&instruction);
    if (start == nullptr) continue;
    const mesh::Transfer& transfer = program.transfers[start->transfer];
    if (transfer.kind == mesh::TransferPurpose::kInMesh ||
        transfer.kind == mesh::TransferPurpose::kAllReduce)
      started.emplace_back(transfer.name, start->microbatch);
  }
  return started;
}

mesh::TrainingPlan random_plan(std::mt19937& random) {
  const char* const names[] = {"1f1b", "zb-h1", "eager-1f1b", "v-half", "gpipe"};
  const std::string name = names[random() % std::size(names)];
  const bool in_v = name == "v-half";
  const int meshes = 1 + static_cast<int>(random() % 2), microbatches = 2 + random() % 2;
  const GatherFrequency gathers[] = {GatherFrequency::kStep, GatherFrequency::kMicrobatch,
                                     GatherFrequency::kUse};
  mesh::ParallelConfig layout;
  mesh::PlanConditions conditions;
  std::vector<LayoutMesh> all;
  conditions.flops_per_second = std::pow(10.0, 8 + static_cast<int>(random() % 3));
  for (int m = 0; m < meshes; ++m) {
    const bool is_line = random() % 2 == 0;
    all.push_back(is_line ? LayoutMesh{"1d", {{"tensor", 2}}}
                          : LayoutMesh{"fsdp", {{"data", 2}}, gathers[random() % 3]});
    mesh::MeshConfig config{"mesh" + std::to_string(m), {}, all.back().axes};
    config.layout = mesh::LayoutChoice{all.back().layout, {}, false, all.back().gather};
    layout.meshes.push_back(std::move(config));
    for (int d = 0; d < 2; ++d) conditions.links["host" + std::to_string(2 * m + d)] = 25e6;
  }
  for (const int mesh : mesh::place_stages(
           in_v ? mesh::StagePlacement::kVShaped : mesh::StagePlacement::kOnePerActor, meshes,
           in_v ? 2 : 1))
    layout.stages.push_back({mesh, 1, random() % 4 == 0});
  const int stages = static_cast<int>(layout.stages.size());
  layout.schedule = name;
  layout.microbatches = microbatches;
  layout.own_schedule = with_random_compounds(
      mesh::without_compounds(mesh::make_schedule(name, stages, microbatches)), random);
  layout.duplex = mesh::has_compounds(*layout.own_schedule) ? Duplex::kCross : Duplex::kOff;
  return mesh::make_training_plan(layout, gpt_of(gpt_shape(2, stages), microbatches),
                                  places_on(all), conditions);
}

TEST(RandomCompounds, StartTheCollectivesOfAMeshInOneOrder) {
  std::mt19937 random(20261128);
  int interleaved = 0;
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(round);
    const mesh::TrainingPlan plan = random_plan(random);  // Programs are validated.
    interleaved += num_switches(plan) > 0 ? 1 : 0;
    for (std::size_t rank = 0; rank < plan.train.programs.size(); rank += 2)
      ASSERT_EQ(collectives_of(plan.train.programs[rank]),
                collectives_of(plan.train.programs[rank + 1]));
  }
  EXPECT_GT(interleaved, 300);
}

TEST(RandomCompounds, ViolationsAreFound) {
  std::mt19937 random(3);
  const std::vector<mesh::Program> programs = random_plan(random).train.programs;
  std::vector<std::size_t> starts;  // Starts of the first device's collectives.
  for (std::size_t i = 0; i < programs.front().instructions.size(); ++i) {
    const auto* start = std::get_if<mesh::Start>(&programs.front().instructions[i]);
    if (start != nullptr &&
        programs.front().transfers[start->transfer].kind == mesh::TransferPurpose::kAllReduce)
      starts.push_back(i);
  }
  ASSERT_GT(starts.size(), 1u);
  const auto error_after = [&](const auto& change) {
    std::vector<mesh::Program> changed = programs;
    change(changed.front().instructions);
    return error_message(ErrorCode::kInternal, [&] { mesh::validate(changed); });
  };
  const auto transfer_at = [](std::vector<mesh::Instruction>& instructions, std::size_t at) {
    return &std::get<mesh::Start>(instructions[at]).transfer;
  };
  EXPECT_EQ(error_after([](const auto&) {}), "");
  // Another order.
  EXPECT_THAT(error_after([&](std::vector<mesh::Instruction>& instructions) {
                std::swap(std::get<mesh::Start>(instructions[starts[0]]).transfer,
                          std::get<mesh::Start>(instructions[starts[1]]).transfer);
                std::swap(std::get<mesh::Start>(instructions[starts[0]]).microbatch,
                          std::get<mesh::Start>(instructions[starts[1]]).microbatch);
              }),
              testing::HasSubstr("start collectives in several orders"));
  // One collective twice, and so another one not at all.
  EXPECT_THAT(error_after([&](std::vector<mesh::Instruction>& instructions) {
                *transfer_at(instructions, starts[1]) = *transfer_at(instructions, starts[0]);
                std::get<mesh::Start>(instructions[starts[1]]).microbatch =
                    std::get<mesh::Start>(instructions[starts[0]]).microbatch;
              }),
              testing::HasSubstr("twice"));
  EXPECT_THAT(error_after([&](std::vector<mesh::Instruction>& instructions) {
                std::get<mesh::Start>(instructions[starts[0]]).microbatch = 100;
              }),
              testing::HasSubstr("its peer device"));
}

}  // namespace
}  // namespace weft::test
