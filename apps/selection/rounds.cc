#include "apps/selection/rounds.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace weft::apps {
namespace {

/// Memory of a partition: ids, gains, offsets of edges, and greedy's copy of gains, heap and marks.
constexpr std::uint64_t kBytesOfPoint = 45, kBytesOfChosen = 16, kBytesOfEdge = 6;

std::uint64_t ceil_of(std::uint64_t dividend, std::uint64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

/// Runs one round over the rows in `left`, whose partitions are `partition_of_row`.
std::vector<ChosenPoint> run_round(const PointGraph& graph, const Objective& objective,
                                   const RoundOptions& options, std::span<const std::uint32_t> left,
                                   std::span<const std::uint32_t> partition_of_row,
                                   std::uint64_t count, RoundResult& result) {
  std::vector<std::vector<std::uint32_t>> parts(result.partitions);
  for (std::size_t i = 0; i < left.size(); ++i) parts[partition_of_row[i]].push_back(left[i]);
  std::vector<std::uint64_t> quotas;
  for (const auto& part : parts) {
    quotas.push_back(part.size());
    result.largest = std::max<std::uint64_t>(result.largest, part.size());
  }
  if (options.quotas == Quotas::kEqual) quotas = partition_quotas(count, quotas);
  std::vector<ChosenPoint> chosen;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::uint64_t quota = std::min(quotas[part], count);
    for (const ChosenPoint& point :
         choose_greedily(part_of(graph, parts[part]), objective, quota, options.seed))
      chosen.push_back({parts[part][point.row], point.gain});
  }
  if (chosen.size() > count) {
    const auto rank = [&](const ChosenPoint& point) {
      return PointRank(point.gain, graph.ids[point.row], options.seed);
    };
    std::ranges::nth_element(
        chosen, chosen.begin() + static_cast<std::ptrdiff_t>(count),
        [&](const ChosenPoint& a, const ChosenPoint& b) { return rank(a).comes_before(rank(b)); });
    chosen.resize(count);
  }
  std::ranges::sort(chosen, {}, &ChosenPoint::row);
  result.points = chosen.size();
  return chosen;
}

void check(const PointGraph& graph, const RoundOptions& options) {
  if (options.count < 1 || options.count > graph.size())
    throw_error(ErrorCode::kInvalidArgument,
                "{} of {} points cannot be chosen; choose from 1 to all of them", options.count,
                graph.size());
  if (options.partitions < 1 || options.rounds < 1)
    throw_error(ErrorCode::kInvalidArgument, "{} partitions in {} rounds: set each to at least 1",
                options.partitions, options.rounds);
  if (options.delta > 1000)
    throw_error(ErrorCode::kInvalidArgument, "delta is {}: set it to a number from 0 to 1",
                options.delta / 1000.0);
}

}  // namespace

std::uint64_t points_after_round(std::uint64_t points, std::uint64_t count, std::uint32_t rounds,
                                 std::uint32_t round, std::uint32_t delta) {
  using Wide = unsigned __int128;
  const Wide more = Wide{points - count} * delta * (rounds - round), divisor = Wide{1000} * rounds;
  const std::uint64_t rounded_up = (more + divisor - 1) / divisor;
  return rounded_up + count;
}

std::uint64_t partitions_for(std::uint64_t points, std::uint64_t capacity) {
  return std::max<std::uint64_t>(ceil_of(points, capacity), 1);
}

std::vector<std::uint64_t> partition_quotas(std::uint64_t count,
                                            std::span<const std::uint64_t> sizes) {
  std::vector<std::uint64_t> quotas(sizes.size(), 0);
  std::vector<std::size_t> roomy(sizes.size());
  std::iota(roomy.begin(), roomy.end(), std::size_t{0});
  while (count > 0) {
    std::erase_if(roomy, [&](std::size_t part) { return quotas[part] == sizes[part]; });
    if (roomy.empty())
      throw_error(ErrorCode::kInvalidArgument,
                  "the partitions have no points left, but {} more must be chosen; choose fewer",
                  count);
    // Gives equal shares, and one more to the first partitions. Repeats with the points that full
    // partitions could not take.
    const std::uint64_t share = count / roomy.size(), more = count % roomy.size();
    for (std::size_t i = 0; i < roomy.size(); ++i) {
      const std::size_t part = roomy[i];
      const std::uint64_t taken = std::min(share + (i < more ? 1 : 0), sizes[part] - quotas[part]);
      quotas[part] += taken;
      count -= taken;
    }
  }
  return quotas;
}

std::uint64_t partition_bytes(const PlannedRound& round, double neighbours) {
  // Random partitions differ by a few standard deviations; 1 % is far more than that.
  const std::uint64_t mean = ceil_of(round.points, round.partitions);
  const std::uint64_t points = mean + mean / 100 + 1;
  // Sent points include edges to neighbours that are not in this round.
  const auto edges =
      static_cast<std::uint64_t>(static_cast<double>(points) * neighbours / round.partitions);
  return points * kBytesOfPoint + edges * kBytesOfEdge +
         ceil_of(round.stay, round.partitions) * kBytesOfChosen;
}

std::vector<PlannedRound> plan_rounds(std::uint64_t points, const RoundOptions& options) {
  const std::uint64_t capacity =
      options.capacity > 0 ? options.capacity : ceil_of(points, options.partitions);
  std::vector<PlannedRound> rounds;
  std::uint64_t left = points;
  for (std::uint32_t round = 1; round <= options.rounds; ++round) {
    PlannedRound& one = rounds.emplace_back();
    one.points = left;
    one.partitions = options.partitions;
    if (options.adaptive) one.partitions = partitions_for(left, capacity);
    one.stay = std::min(
        points_after_round(points, options.count, options.rounds, round, options.delta), left);
    while (options.adaptive && round > 1 && options.most_bytes > 0 &&
           one.partitions < options.partitions &&
           partition_bytes(one, options.neighbours) > options.most_bytes)
      ++one.partitions;
    left = one.stay;
  }
  return rounds;
}

RoundsResult choose_in_rounds(const PointGraph& graph, const Objective& objective,
                              const RoundOptions& options) {
  check(graph, options);
  RoundsResult result;
  std::vector<std::uint32_t> left(graph.size());
  std::iota(left.begin(), left.end(), 0U);
  for (const PlannedRound& planned : plan_rounds(graph.size(), options)) {
    RoundResult& one = result.rounds.emplace_back();
    const auto round = static_cast<std::uint32_t>(result.rounds.size());
    one.partitions = planned.partitions;
    const PartitionAssigner partition_of(options.seed, round, one.partitions);
    std::vector<std::uint32_t> partitions;
    for (const std::uint32_t row : left) partitions.push_back(partition_of(graph.ids[row]));
    result.chosen = run_round(graph, objective, options, left, partitions, planned.stay, one);
    left.clear();
    for (const ChosenPoint& point : result.chosen) left.push_back(point.row);
  }
  return result;
}

RoundsResult choose_in_partitions(const PointGraph& graph, const Objective& objective,
                                  const RoundOptions& options,
                                  std::span<const std::uint32_t> partition_of_row) {
  check(graph, options);
  RoundsResult result;
  RoundResult& one = result.rounds.emplace_back();
  one.partitions = options.partitions;
  std::vector<std::uint32_t> all(graph.size());
  std::iota(all.begin(), all.end(), 0U);
  result.chosen = run_round(graph, objective, options, all, partition_of_row, options.count, one);
  return result;
}

}  // namespace weft::apps
