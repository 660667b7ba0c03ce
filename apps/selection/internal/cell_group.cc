#include "apps/selection/internal/cell_group.h"

#include <algorithm>

#include "core/spill/spill_file.h"

namespace weft::apps {

void CellGroup::write(ByteWriter& record, std::uint32_t cell, bool is_base, PointId id,
                      std::span<const std::byte> vector) {
  record.write(cell);
  record.write(id);
  record.write<std::uint8_t>(is_base ? 1 : 0);
  record.write_bytes(vector);
}

CellGroup::CellGroup(const std::filesystem::path& file, std::size_t dimensions)
    : dimensions_(dimensions) {
  values_.reserve(std::filesystem::file_size(file) / sizeof(float));
  SpillReader reader(file);
  for (auto block = reader.next(); !block.empty(); block = reader.next()) {
    ByteReader records(block);
    while (records.remaining() > 0) {
      const auto cell = records.read<std::uint32_t>();
      const auto id = records.read<PointId>();
      const bool is_base = records.read<std::uint8_t>() != 0;
      entries_.push_back({cell, id, is_base, static_cast<std::uint32_t>(entries_.size())});
      const auto vector = records.read_bytes(dimensions * sizeof(float));
      values_.resize(values_.size() + dimensions);
      std::ranges::copy(vector,
                        std::as_writable_bytes(std::span(values_).last(dimensions)).begin());
    }
  }
  std::ranges::sort(entries_);
}

std::optional<CellGroup::Cell> CellGroup::next() {
  if (next_ == entries_.size()) return std::nullopt;
  Cell cell{{dimensions_}, {dimensions_}};
  const std::uint32_t number = entries_[next_].cell;
  for (; next_ < entries_.size() && entries_[next_].cell == number; ++next_) {
    const Entry& entry = entries_[next_];
    VectorBlock& into = entry.is_base ? cell.bases : cell.queries;
    const auto vector = std::span(values_).subspan(entry.row * dimensions_, dimensions_);
    into.ids.push_back(entry.id);
    into.values.insert(into.values.end(), vector.begin(), vector.end());
  }
  return cell;
}

}  // namespace weft::apps
