#include "mesh/program/step_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace weft::mesh {
namespace {

/// Graph of a test. A step makes the value of the same index.
struct Steps {
  ListedSteps graph;
  Steps& add(StepLane lane, double seconds, std::vector<std::size_t> reads, double bytes = 1) {
    graph.values.push_back({bytes});
    graph.steps.push_back({lane, seconds, 0, std::move(reads), {graph.steps.size()}});
    return *this;
  }
  Steps& compute(double seconds, std::vector<std::size_t> reads = {}, double bytes = 1) {
    return add(StepLane::kCompute, seconds, std::move(reads), bytes);
  }
  Steps& move(double seconds, std::vector<std::size_t> reads = {}, double bytes = 1) {
    return add(StepLane::kNetwork, seconds, std::move(reads), bytes);
  }
  Steps& starts_itself() {
    graph.steps.back().starts_itself = true;
    return *this;
  }
};

std::vector<std::size_t> graph_order(const ListedSteps& graph) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < graph.steps.size(); ++i)
    if (!graph.steps[i].starts_itself) order.push_back(i);
  return order;
}

double length(const StepList& list) { return list.seconds + list.late; }

/// Returns the length of the shortest of all orders, in which each step of the network lane may
/// await any earlier one.
double shortest(const ListedSteps& graph, std::vector<std::size_t>& order, AwaitedSteps& awaits,
                std::vector<bool>& done) {
  if (order.size() == graph.steps.size()) return length(play_steps(graph, order, awaits));
  double best = 1e9;
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const auto& reads = graph.steps[i].reads;
    if (done[i] || !std::ranges::all_of(reads, [&](std::size_t v) { return done[v]; })) continue;
    done[i] = true;
    order.push_back(i);
    best = std::min(best, shortest(graph, order, awaits, done));
    for (std::size_t j = 0; j < graph.steps.size(); ++j) {
      const bool are_moves =
          graph.steps[i].lane == StepLane::kNetwork && graph.steps[j].lane == StepLane::kNetwork;
      if (!are_moves || !done[j] || i == j) continue;
      awaits[i] = j;
      best = std::min(best, shortest(graph, order, awaits, done));
      awaits.erase(i);
    }
    order.pop_back();
    done[i] = false;
  }
  return best;
}

ListedSteps random_graph(std::mt19937& random) {
  Steps steps;
  const int count = 3 + static_cast<int>(random() % 6);
  for (int i = 0; i < count; ++i) {
    std::vector<std::size_t> reads;
    for (int v = 0; v < i; ++v)
      if (random() % 3 == 0) reads.push_back(v);
    const double seconds = 1 + static_cast<double>(random() % 9);
    steps.add(random() % 5 < 2 ? StepLane::kNetwork : StepLane::kCompute, seconds, reads);
  }
  return steps.graph;
}

TEST(StepList, IsAboutAsShortAsTheBestOfAllOrders) {
  std::mt19937 random(20261128);
  std::vector<double> ratios;
  for (int round = 0; round < 200; ++round) {
    const ListedSteps graph = random_graph(random);
    std::vector<std::size_t> order;
    AwaitedSteps awaits;
    std::vector<bool> done(graph.steps.size());
    const double best = shortest(graph, order, awaits, done);
    const StepList list = list_steps(graph, {.max_memory = 100});
    EXPECT_DOUBLE_EQ(length(list), length(play_steps(graph, list.order, list.awaits)));
    ratios.push_back(length(list) / best);
    EXPECT_GE(ratios.back(), 1 - 1e-9);
  }
  std::ranges::sort(ratios);
  EXPECT_DOUBLE_EQ(ratios[ratios.size() / 2], 1);
  EXPECT_LE(ratios[ratios.size() * 95 / 100], 1.05) << "worst " << ratios.back();
}

TEST(StepList, NeverTakesLongerOrMuchMoreMemoryThanTheOrderOfTheGraph) {
  std::mt19937 random(20261129);
  for (int round = 0; round < 500; ++round) {
    ListedSteps graph = random_graph(random);
    for (ListedValue& value : graph.values) {
      value.bytes = static_cast<double>(random() % 10);
      value.is_kept = random() % 4 == 0;
    }
    const StepList given = play_steps(graph, graph_order(graph)), list = list_steps(graph);
    EXPECT_LE(length(list), length(given));
    EXPECT_LE(list.peak_bytes, 1.05 * given.peak_bytes);
  }
}

TEST(StepList, AWeightGradientFillsTheWaitForASum) {
  // A sum of an input gradient, which the next layer needs; the weight gradient is ready.
  Steps steps;
  steps.compute(2).move(2, {0}).compute(2, {0}, 0).compute(2, {1}).move(2, {3});
  steps.graph.steps[2].seconds = 3;
  const StepList given = play_steps(steps.graph, {0, 1, 3, 4, 2});
  EXPECT_EQ(given.exposed, 2);
  const StepList list = list_steps(steps.graph, {.max_memory = 2});
  EXPECT_EQ(list.order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(list.exposed, 0);
}

TEST(StepList, AChainedMoveDoesNotStopTheDevice) {
  // A sum and then a gather of it. The device has other work meanwhile.
  Steps steps;
  steps.compute(1).move(2, {0}).move(2, {1}).compute(3).compute(3).compute(1, {2});
  const StepList given = play_steps(steps.graph, graph_order(steps.graph));
  EXPECT_EQ(given.exposed, 2);
  const StepList list = list_steps(steps.graph, {.max_memory = 2});
  EXPECT_EQ(list.exposed, 0);
  EXPECT_EQ(list.seconds, 8);
}

TEST(StepList, GathersStartAsEarlyAsMemoryAllows) {
  // Four products, each with a gathered parameter. Two gathered ones fit.
  Steps steps;
  for (std::size_t layer = 0; layer < 4; ++layer) {
    steps.move(3, {}, 10);
    std::vector<std::size_t> reads{2 * layer};
    if (layer > 0) reads.push_back(2 * layer - 1);
    steps.compute(3, reads, 0);
  }
  const StepList given = play_steps(steps.graph, graph_order(steps.graph));
  EXPECT_EQ(given.seconds, 24);
  EXPECT_EQ(given.peak_bytes, 10);
  EXPECT_EQ(list_steps(steps.graph).seconds, 24);
  const StepList twice = list_steps(steps.graph, {.max_memory = 2});
  EXPECT_EQ(twice.seconds, 15) << "the second gather awaits the first one";
  EXPECT_EQ(twice.peak_bytes, 20);
}

TEST(StepList, AReductionThatStartsItselfComesEarlierIfItIsLong) {
  // Two input gradients and two weight gradients; a reduction follows each weight gradient.
  Steps steps;
  steps.compute(1).compute(1, {0}).compute(1, {0}).compute(1, {1});
  steps.move(6, {2}).starts_itself().move(1, {3}).starts_itself();
  const StepList list = list_steps(steps.graph, {.max_memory = 2});
  EXPECT_EQ(list.order, (std::vector<std::size_t>{0, 2, 1, 3}));
  EXPECT_EQ(list.seconds, 4);
  EXPECT_EQ(list.late, 5);
}

}  // namespace
}  // namespace weft::mesh
