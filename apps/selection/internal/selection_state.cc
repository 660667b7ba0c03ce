#include "apps/selection/internal/selection_state.h"

#include "core/base/error.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {

SelectionState::SavedBounds SelectionState::read_saved_bounds(std::uint32_t shard) const {
  const std::vector<std::byte> bytes = read_spilled(bounds_file(shard));
  if (bytes.size() < sizeof(std::int32_t))
    throw_error(ErrorCode::kDataLoss,
                "{} is damaged: it has no state of bounds; start this run again",
                bounds_file(shard).string());
  return {ByteReader(bytes).read<std::int32_t>(),
          PointBounds(settings_.objective(), std::span(bytes).subspan(sizeof(std::int32_t)))};
}

void SelectionState::write_bounds(std::uint32_t shard, int step, const PointBounds& bounds) const {
  const std::vector<std::byte> state = bounds.state();
  ByteWriter writer(sizeof(std::int32_t) + state.size());
  writer.write<std::int32_t>(step);
  writer.write_bytes(state);
  WorkerSession::write_state(bounds_file(shard), writer.bytes());
}

std::vector<std::uint32_t> SelectionState::read_decisions(std::uint32_t shard, int step) const {
  const auto path = session_.state_file("decided", static_cast<std::uint64_t>(step), shard);
  if (!std::filesystem::exists(path)) return {};  // no decisions in this step
  const std::vector<std::byte> bytes = read_spilled(path);
  std::vector<std::uint32_t> rows(bytes.size() / sizeof(std::uint32_t));
  ByteReader reader(bytes);
  for (std::uint32_t& row : rows) row = reader.read<std::uint32_t>();
  return rows;
}

void SelectionState::write_decisions(std::uint32_t shard, int step,
                                     std::span<const std::uint32_t> rows) const {
  if (rows.empty()) return;
  WorkerSession::write_state(
      session_.state_file("decided", static_cast<std::uint64_t>(step), shard), std::as_bytes(rows));
}

std::vector<bool> SelectionState::remaining_points(std::uint32_t shard, std::uint32_t round) const {
  const std::uint32_t rows = session_.rows_of(shard);
  if (round > 0) {
    const std::vector<std::byte> bytes = read_spilled(remaining_file(shard, round));
    std::vector<bool> bits(rows);
    if (bytes.size() != (rows + 7) / 8)
      throw_error(ErrorCode::kDataLoss, "{} belongs to another run; start this run again",
                  remaining_file(shard, round).string());
    for (std::uint32_t row = 0; row < rows; ++row)
      bits[row] = (std::to_integer<unsigned>(bytes[row / 8]) >> (row % 8) & 1) != 0;
    return bits;
  }
  std::vector<bool> bits(rows, true);
  if (!settings_.use_bounding) return bits;
  const PointBounds bounds = read_bounds(shard);
  for (std::uint32_t row = 0; row < rows; ++row)
    bits[row] = bounds.state_of(row) == PointState::kOpen;
  return bits;
}

void SelectionState::write_remaining_points(std::uint32_t shard, std::uint32_t round,
                                            const std::vector<bool>& remaining) const {
  std::vector<std::byte> bits((remaining.size() + 7) / 8);
  for (std::size_t row = 0; row < remaining.size(); ++row)
    if (remaining[row]) bits[row / 8] |= std::byte{static_cast<unsigned char>(1U << (row % 8))};
  WorkerSession::write_state(remaining_file(shard, round), bits);
}

std::vector<bool> SelectionState::chosen_points(std::uint32_t shard, std::uint32_t round) const {
  std::vector<bool> chosen;
  if (round > 0) chosen = remaining_points(shard, round);
  else chosen.resize(session_.rows_of(shard));
  if (!settings_.use_bounding) return chosen;
  const PointBounds bounds = read_bounds(shard);
  for (std::uint32_t row = 0; row < bounds.size(); ++row)
    if (bounds.state_of(row) == PointState::kAccepted) chosen[row] = true;
  return chosen;
}

std::vector<std::int64_t> SelectionState::read_gains(std::uint32_t shard,
                                                     std::uint32_t round) const {
  if (round == 0) return {};
  const std::vector<std::byte> bytes = read_spilled(session_.state_file("gains", round, shard));
  std::vector<std::int64_t> gains(bytes.size() / sizeof(std::int64_t));
  ByteReader reader(bytes);
  for (std::int64_t& gain : gains) gain = reader.read<std::int64_t>();
  return gains;
}

void SelectionState::write_gains(std::uint32_t shard, std::uint32_t round,
                                 std::span<const std::int64_t> gains) const {
  WorkerSession::write_state(session_.state_file("gains", round, shard), std::as_bytes(gains));
}

std::uint64_t SelectionState::num_missing(bool has_bounds, std::uint32_t round) const {
  std::uint64_t missing = 0;
  for (const std::uint32_t shard : session_.shards()) {
    if (has_bounds && !std::filesystem::exists(bounds_file(shard))) ++missing;
    if (round > 0 && !std::filesystem::exists(remaining_file(shard, round))) ++missing;
  }
  return missing;
}

}  // namespace weft::apps
