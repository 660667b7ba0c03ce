// Tests named schedules with vocabulary passes against the paper's (arXiv 2411.05288) memory,
// barriers and speed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "mesh/schedule/check.h"
#include "mesh/schedule/late_reductions.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"
#include "mesh/schedule/simulate.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using enum VocabularyMode;
using testing::HasSubstr;

/// Returns an actor's most microbatches between F and the input gradient at a time.
int peak_in_flight(const Schedule& schedule, int actor) {
  int now = 0, peak = 0;
  for (const Action& action : schedule.actors[actor]) {
    if (action.kind == ActionKind::kForward) peak = std::max(peak, ++now);
    if (gives_input_grad(action.kind)) --now;
  }
  return peak;
}

TEST(VocabularySchedules, OneForwardOneBackwardOfTwoActors) {
  const auto rows = [](VocabularyMode mode) {
    return write_schedule(make_schedule({"1f1b", 2, 3, 0, 0, mode}), {}, ScheduleHeader::kNone);
  };
  EXPECT_EQ(rows(kVocab2),
            "0IF0,0IF1,0F0,0IF2,0F1,0F2,0S0,0T0,0S1,0T1,0B0,0S2,0IB0,0B1,0T2,0IB1,0B2,0IB2\n"
            "1IF0,1IF1,1IF2,1F0,1F1,1S0,1T0,1S1,1B0,1F2,1B1,1T1,1S2,1IB0,1B2,1T2,1IB1,1IB2\n");
  EXPECT_EQ(rows(kInterlaced),
            "0IF0,0IF1,0IF2,0F0,0S0,0T0,0F1,0S1,0T1,0F2,0B0,0IB0,0S2,0T2,0B1,0IB1,0B2,0IB2\n"
            "1IF0,1IF1,1IF2,1F0,1S0,1T0,1B0,1F1,1S1,1T1,1B1,1F2,1IB0,1S2,1T2,1B2,1IB1,1IB2\n");
}

TEST(VocabularySchedules, EveryBarrierAddsAMicrobatchInFlight) {
  for (const int p : {2, 4, 8}) {
    for (const int m : {1, 2, 3, p - 1, p, p + 1, 5 * p, 64}) {
      const auto of = [&](VocabularyMode mode) {
        return make_schedule({"1f1b", p, m, 0, 0, mode});
      };
      const Schedule one = of(kVocab2), two = of(kVocab1), interlaced = of(kInterlaced);
      for (int r = 0; r < p; ++r) {
        EXPECT_EQ(peak_in_flight(one, r), std::min(m, p - r + 1)) << p << " " << m << " " << r;
        EXPECT_EQ(peak_in_flight(two, r), std::min(m, p - r + 2)) << p << " " << m << " " << r;
        EXPECT_EQ(peak_in_flight(interlaced, r), std::min(m, 3 * (p - r) / 2))
            << p << " " << m << " " << r;
      }
    }
  }
}

TEST(VocabularySchedules, FirstActorOfEightHoldsWhatThePaperMeasured) {
  const ScheduleCosts costs = uniform_costs(8, {.vocabulary_scores = 0.1, .vocabulary_grads = 0.1});
  const auto peak = [&](VocabularyMode mode) {
    return simulate(make_schedule({"1f1b", 8, 128, 0, 0, mode}), costs).actors[0].peak;
  };
  EXPECT_DOUBLE_EQ(peak(kLast), 8);
  EXPECT_DOUBLE_EQ(peak(kVocab2), 9);
  EXPECT_DOUBLE_EQ(peak(kVocab1), 10);
  EXPECT_DOUBLE_EQ(peak(kInterlaced), 12);
}

TEST(VocabularySchedules, OtherSchedulesHoldAMicrobatchMorePerBarrierToo) {
  for (const char* name : {"eager-1f1b", "zb-h1", "zb-v", "v-half"}) {
    const int chunks = find_named_schedule(name).chunks;
    const double part = 1.0 / chunks;
    const ScheduleCosts costs = uniform_costs(8 * chunks, {.forward = part,
                                                           .input_grad = part,
                                                           .weight_grad = part,
                                                           .activations = part,
                                                           .for_weight_grad = part});
    const auto peak = [&](VocabularyMode mode) {
      return simulate(make_schedule({name, 8, 64, 0, 0, mode}), costs).peak();
    };
    EXPECT_LE(peak(kVocab2), peak(kLast) + 1) << name;
    EXPECT_LE(peak(kVocab1), peak(kLast) + 2) << name;
  }
}

TEST(VocabularySchedules, EveryBarrierIsOneIntervalBetweenTheLastForwardAndItsBackward) {
  for (const int p : {2, 4, 8}) {
    for (const char* name : {"1f1b", "eager-1f1b", "zb-h1"}) {
      for (const VocabularyMode mode : {kVocab2, kVocab1}) {
        const int m = 6 * p, barriers = vocabulary_barriers(mode);
        const double interval = 3 + 0.2;
        const ScheduleSimulation played =
            simulate(make_schedule({name, p, m, 0, 0, mode}),
                     uniform_costs(p, {.vocabulary_scores = 0.1, .vocabulary_grads = 0.1}));
        std::vector<double> forward(m), backward(m);
        for (const SimulatedAction& one : played.actors.back().actions) {
          const std::size_t microbatch = one.action.microbatch;
          if (one.action.kind == ActionKind::kForward) forward[microbatch] = one.end;
          if (gives_input_grad(one.action.kind)) backward[microbatch] = one.start;
        }
        // Microbatches in the middle, where the pipeline is full. With W separate, part of a W may
        // lie between.
        for (int i = 2 * p; i < 4 * p; ++i) {
          EXPECT_NEAR(backward[i] - forward[i], barriers * interval,
                      name == std::string("zb-h1") ? 1 + 1e-9 : 0.2 + 1e-9)
              << name << " " << p << " " << to_string(mode) << " " << i;
        }
      }
    }
  }
}

TEST(VocabularySchedules, EveryOneHoldsInAllTenAtEverySize) {
  for (const NamedSchedule& named : named_schedules()) {
    for (const VocabularyMode mode : {kVocab1, kVocab2, kInterlaced}) {
      if (mode == kInterlaced && named.name != "1f1b") continue;
      for (const int p : {2, 3, 4, 7}) {
        for (const int m : {1, 2, 5, 9, 16}) {
          const Schedule schedule = make_schedule({std::string(named.name), p, m, 0, 0, mode});
          const ScheduleReport report =
              check_schedule(schedule, uniform_costs(schedule.stages,
                                                     {.vocabulary_scores = 0.1,
                                                      .vocabulary_grads = 0.1,
                                                      .input_forward = 0.01,
                                                      .input_backward = 0.01,
                                                      .score_memory = 0.5,
                                                      .partial_held = 0.25,
                                                      .embedded_held = 0.125},
                                                     0.25));
          for (const Finding& finding : report.findings) {
            EXPECT_EQ(finding.holds, true)
                << named.name << " " << to_string(mode) << " p=" << p << " m=" << m << " "
                << to_string(finding.property) << ": " << finding.detail;
          }
          EXPECT_NO_THROW(require_vocabulary(schedule, mode));
        }
      }
    }
  }
}

TEST(VocabularySchedules, AnActorHoldsTheScoresOfOneMicrobatch) {
  // The scores between S and T are held once, because T precedes the next S.
  for (const NamedSchedule& named : named_schedules()) {
    for (const VocabularyMode mode : {kVocab1, kVocab2}) {
      for (const auto& actions :
           make_schedule({std::string(named.name), 4, 9, 0, 0, mode}).actors) {
        int open = 0;
        for (const Action& action : actions) {
          if (action.kind == ActionKind::kVocabularyScores) ++open;
          if (action.kind == ActionKind::kVocabularyGrads) --open;
          EXPECT_LE(open, 1) << named.name;
        }
      }
    }
  }
}

TEST(VocabularySchedules, ForwardsAloneGetInputPassesAndScores) {
  EXPECT_EQ(write_schedule(with_vocabulary(make_forward_schedule(2, 2), kVocab2), {},
                           ScheduleHeader::kNone),
            "0IF0,0IF1,0F0,0F1,0S0,0S1\n1IF0,1IF1,1F0,1F1,1S0,1S1\n");
}

TEST(VocabularySchedules, ReductionsFollowThePassesOfTheirStage) {
  for (const char* name : {"1f1b", "interleaved-1f1b", "zb-v"}) {
    const Schedule plain = make_schedule({name, 4, 6, 0, 0});
    const std::vector<StageEdge> edges = chain_edges(plain.stages);
    const Schedule behind = with_late_reductions(with_vocabulary(plain, kVocab2)),
                   before = with_vocabulary(with_late_reductions(plain), kVocab2);
    EXPECT_NO_THROW(validate(behind, edges)) << name;
    EXPECT_NO_THROW(validate(before, edges)) << name;
    for (const Schedule& schedule : {behind, before}) {
      int reductions = 0;
      for (const auto& actions : schedule.actors)
        reductions += std::ranges::count(actions, ActionKind::kReduceGrad, &Action::kind);
      EXPECT_EQ(reductions, schedule.stages) << name;
    }
  }
}

TEST(VocabularySchedules, ForwardsOfOneForTrainingAreAScheduleToo) {
  Schedule schedule = make_schedule({"v-half", 4, 6, 0, 0, kVocab2});
  for (auto& actions : schedule.actors) {
    std::erase_if(actions, [](const Action& action) {
      return action.kind != ActionKind::kForward && action.kind != ActionKind::kInputForward &&
             action.kind != ActionKind::kVocabularyScores;
    });
  }
  EXPECT_NO_THROW(validate(schedule, chain_edges(schedule.stages), false));
  EXPECT_NO_THROW(require_vocabulary(schedule, kVocab2, false));
}

TEST(VocabularySchedules, AreValidWhateverTheTimes) {
  std::mt19937 random(17);
  const auto time = [&] { return static_cast<double>(random() % 17) / 8; };
  for (int round = 0; round < 400; ++round) {
    const std::span<const NamedSchedule> all = named_schedules();
    const NamedSchedule& named = all[random() % all.size()];
    ScheduleRequest request{std::string(named.name), 2 + static_cast<int>(random() % 5),
                            1 + static_cast<int>(random() % 12)};
    const Schedule plain = make_schedule(request);
    request.vocabulary = random() % 2 == 0 ? kVocab1 : kVocab2;
    request.vocabulary_times = {time(), time(), time(), time(), time(), time(), time()};
    const Schedule schedule = make_schedule(request);
    EXPECT_NO_THROW(validate(schedule, chain_edges(schedule.stages))) << round;
    EXPECT_NO_THROW(require_vocabulary(schedule, request.vocabulary)) << round;
    EXPECT_EQ(find_edge_order_violation(schedule, chain_edges(schedule.stages)), "") << round;
    // Each stage of an actor has one more microbatch in flight per barrier.
    const int more = vocabulary_barriers(request.vocabulary) * plain.stages / request.actors;
    for (int actor = 0; actor < request.actors; ++actor) {
      EXPECT_LE(peak_in_flight(schedule, actor), peak_in_flight(plain, actor) + more)
          << round << " " << named.name;
    }
  }
}

TEST(VocabularySchedules, CompoundsStayTogetherUnlessAPassIsNeededBetween) {
  const Schedule schedule = make_schedule({"dualpipe-v", 4, 16, 0, 0, kVocab2});
  int compounds = 0;
  for (const auto& actions : schedule.actors) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (!actions[i].joins_previous) continue;
      ++compounds;
      ASSERT_GT(i, 0u);
      EXPECT_FALSE(is_vocabulary_pass(actions[i - 1].kind));
    }
  }
  EXPECT_GT(compounds, 0);
}

TEST(VocabularySchedules, ImpossibleRequestsAreRefused) {
  EXPECT_THAT(
      [&] {
        make_schedule({"1f1b", 1, 4, 0, 0, kVocab2});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "has one actor"));
  EXPECT_THAT(
      [&] {
        make_schedule({"1f1b", 1, 4, 0, 0, kInterlaced});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "has one actor"));
  EXPECT_THAT(
      [&] {
        make_schedule({"zb-h1", 4, 4, 0, 0, kInterlaced});
      },
      test::throws_error(ErrorCode::kInvalidArgument,
                         "goes with the schedule 1f1b, not with zb-h1"));
  EXPECT_THAT(
      [&] { with_vocabulary(make_schedule("1f1b", 2, 2), kInterlaced); },
      test::throws_error(ErrorCode::kInvalidArgument, "cannot be interlaced by putting passes in"));
  EXPECT_THAT(
      [&] {
        with_vocabulary(make_schedule({"1f1b", 2, 2, 0, 0, kVocab2}), kVocab2);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "has vocabulary passes"));
  // Two actors that wait for each other.
  EXPECT_THAT(
      [&] {
        with_vocabulary(
            read_schedule("0F0,0B0,0F1,0F2,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n", "x").schedule,
            kVocab2);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "deadlocks with vocabulary passes"));
}

/// Step times of the paper's 4B GPT (width 3072) on 8 actors of 4 layers, in units of a layer's
/// forward.
class Paper {
 public:
  Paper(int vocabulary, double sequence)
      : vocabulary_layer_(vocabulary * 1024 / (12.0 * 3072 + 2 * sequence)) {}

  double naive() const { return redistributed(4); }
  /// Simulates with `left` layers on the last stage and the others spread over the first seven.
  double redistributed(int left) const {
    ScheduleCosts costs = uniform_costs(8, kLayers);
    for (int stage = 0; stage < 8; ++stage) {
      const int layers = stage == 7 ? left : (32 - left) / 7 + (stage < (32 - left) % 7 ? 1 : 0);
      StageCosts& one = costs.stages[stage];
      one.forward = one.input_grad = one.weight_grad = layers;
    }
    StageCosts& last = costs.stages.back();
    for (double* time : {&last.forward, &last.input_grad, &last.weight_grad})
      *time += vocabulary_layer_;
    return simulate(make_schedule("1f1b", 8, kMicrobatches), costs).makespan;
  }
  double split(const char* schedule, VocabularyMode mode) const {
    StageCosts stage = kLayers;
    const double part = vocabulary_layer_ / 8;
    // vocab-2 computes the input gradient in S, vocab-1 in T.
    stage.vocabulary_scores = (mode == kVocab2 ? 2 : 1) * part;
    stage.vocabulary_grads = 3 * part - stage.vocabulary_scores;
    const ScheduleRequest request{schedule, 8, kMicrobatches, 0, 0, mode};
    const int chunks = find_named_schedule(schedule).chunks;
    return simulate(make_schedule(request), split_stages(uniform_costs(8, stage), chunks)).makespan;
  }
  /// Estimates the step if fill and drain included the vocabulary passes and each barrier added an
  /// interval at the end.
  double by_intervals(VocabularyMode mode) const {
    return (kMicrobatches + 7 + vocabulary_barriers(mode)) * 3 * (32 + vocabulary_layer_) / 8;
  }

 private:
  static constexpr int kMicrobatches = 128;
  static constexpr StageCosts kLayers{.forward = 4, .input_grad = 4, .weight_grad = 4};
  const double vocabulary_layer_;
};

TEST(VocabularySchedules, ThePapersModelIsAsMuchFasterAsItsIntervalsSay) {
  struct Row {
    double sequence;
    int vocabulary;
    double vocab1, vocab2;
  };
  for (const Row& row :
       {Row{2048, 32, 1.144, 1.152}, Row{2048, 64, 1.294, 1.304}, Row{2048, 128, 1.575, 1.587},
        Row{2048, 256, 2.067, 2.082}, Row{4096, 32, 0, 1.138}, Row{4096, 64, 0, 1.277},
        Row{4096, 128, 0, 1.537}, Row{4096, 256, 0, 1.998}}) {
    const Paper paper(row.vocabulary, row.sequence);
    const double naive = paper.naive();
    for (const auto& [mode, ratio] :
         {std::pair(kVocab1, row.vocab1), std::pair(kVocab2, row.vocab2)}) {
      if (ratio == 0) continue;
      EXPECT_NEAR(naive / paper.by_intervals(mode), ratio, 0.001) << row.vocabulary;
      // Schedules are faster than the estimate. Fill and drain have no vocabulary passes, and the
      // first exchange need not wait for an interval.
      const double played = naive / paper.split("1f1b", mode);
      EXPECT_GE(played, ratio) << row.vocabulary << " " << to_string(mode);
      EXPECT_LE(played, ratio * 1.025) << row.vocabulary << " " << to_string(mode);
    }
    const double split = paper.split("1f1b", kVocab2);
    EXPECT_NEAR(paper.split("1f1b", kInterlaced), split, 0.005 * split);
    EXPECT_LE(paper.split("eager-1f1b", kVocab2), split * 1.003);
    EXPECT_LT(paper.split("zb-h1", kVocab2), split * 0.975);
    EXPECT_LT(paper.split("v-half", kVocab2), split * 0.98);
  }
}

TEST(VocabularySchedules, RedistributedLayersAreSlowerThanASplitVocabulary) {
  for (const auto& [vocabulary, left, ratio] :
       {std::tuple(32, 4, 1.15), std::tuple(64, 3, 1.16), std::tuple(128, 2, 1.16),
        std::tuple(256, 0, 1.30)}) {
    const Paper paper(vocabulary, 2048);
    const double redistributed = paper.redistributed(left);
    EXPECT_NEAR(redistributed / paper.by_intervals(kVocab2), ratio, 0.01) << vocabulary;
    EXPECT_GE(redistributed / paper.split("1f1b", kVocab2), ratio) << vocabulary;
  }
}

TEST(VocabularySchedules, TransfersOfVocabularyPassesHideWhereMemoryAllows) {
  // Each tensor, of stages and of vocabulary passes, takes a quarter of a forward.
  for (const char* name : {"eager-1f1b", "zb-h1", "zb-v", "v-half"}) {
    const int m = 64, chunks = find_named_schedule(name).chunks;
    ScheduleCosts costs = split_stages(
        uniform_costs(8, {.vocabulary_scores = 0.05, .vocabulary_grads = 0.05}, 0.25), chunks);
    const double plain = simulate(make_schedule({name, 8, m, 0, 0}), costs).makespan;
    for (const VocabularyMode mode : {kVocab1, kVocab2}) {
      const Schedule schedule = make_schedule({name, 8, m, 0, 0, mode});
      costs.vocabulary_tensor = 0;
      const double free = simulate(schedule, costs).makespan;
      costs.vocabulary_tensor = 0.25;
      const double played = simulate(schedule, costs).makespan;
      EXPECT_GE(free, 0.97 * played) << name << " " << to_string(mode);
      EXPECT_LE(played, plain + m * 0.1 + 5) << name << " " << to_string(mode);
    }
  }
}

TEST(VocabularySchedules, InterlacedPassesWaitForTheirTransfers) {
  const ScheduleCosts costs = [] {
    ScheduleCosts result =
        uniform_costs(8, {.vocabulary_scores = 0.05, .vocabulary_grads = 0.05}, 0.25);
    result.vocabulary_tensor = 0.25;
    return result;
  }();
  const auto played = [&](const char* name, VocabularyMode mode) {
    return simulate(make_schedule({name, 8, 64, 0, 0, mode}), costs).makespan;
  };
  EXPECT_LT(played("1f1b", kVocab2), played("1f1b", kInterlaced));
  EXPECT_LT(played("eager-1f1b", kVocab2), 0.9 * played("1f1b", kInterlaced));
}

}  // namespace
}  // namespace weft::mesh
