#include "apps/selection/internal/cell_group.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::apps {
namespace {

/// Memory of the blocks of all files.
constexpr std::uint64_t kGroupBlocks = std::uint64_t{16} << 20;

std::filesystem::path group_file(const std::filesystem::path& folder, std::uint32_t group) {
  return folder / fmt::format("group-{:05}", group);
}

}  // namespace

CellGroupWriter::CellGroupWriter(const std::filesystem::path& folder, std::uint32_t groups) {
  const std::size_t block = std::clamp<std::size_t>(kGroupBlocks / groups, std::size_t{16} << 10,
                                                    SpillWriter::kBlockBytes);
  for (std::uint32_t group = 0; group < groups; ++group)
    files_.push_back(std::make_unique<SpillWriter>(group_file(folder, group), block));
}

void CellGroupWriter::append(std::uint32_t group, std::uint32_t cell, bool is_base, PointId id,
                             std::span<const std::byte> vector) {
  record_.clear();
  record_.write(cell);
  record_.write(id);
  record_.write<std::uint8_t>(is_base ? 1 : 0);
  record_.write_bytes(vector);
  files_[group]->append(record_.bytes());
}

void CellGroupWriter::commit() {
  for (const auto& file : files_) file->commit(SpillWriter::CommitDurability::kProcess);
}

CellGroup::CellGroup(const std::filesystem::path& folder, std::uint32_t group,
                     std::size_t dimensions)
    : dimensions_(dimensions) {
  const std::filesystem::path file = group_file(folder, group);
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
  std::filesystem::remove(file);
  std::ranges::sort(entries_);
}

std::optional<CellGroup::Cell> CellGroup::next() {
  if (next_ == entries_.size()) return std::nullopt;
  Cell cell{{dimensions_}, {dimensions_}};
  const std::uint32_t number = entries_[next_].cell;
  for (; next_ < entries_.size() && entries_[next_].cell == number; ++next_) {
    const CellEntry& entry = entries_[next_];
    VectorBlock& into = entry.is_base ? cell.bases : cell.queries;
    const auto vector = std::span(values_).subspan(entry.row * dimensions_, dimensions_);
    into.ids.push_back(entry.id);
    into.values.insert(into.values.end(), vector.begin(), vector.end());
  }
  return cell;
}

}  // namespace weft::apps
