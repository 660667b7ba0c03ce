#include "apps/select_input/internal/id_index.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/folder.h"

namespace weft::apps {
namespace {

constexpr std::uint64_t kFirst = 1, kSecond = 2, kPart = 3;  // purposes of hashes
constexpr std::uint64_t kRowsOfPart = 250'000, kMaxBatches = 128;
constexpr std::size_t kIdBytes = 24, kReferenceBytes = 28;

std::filesystem::path made(std::filesystem::path folder) {
  make_folders(folder, "give another `scratch`");
  return folder;
}

/// Returns the hash that selects an id's part. ShardSpills reads it as a point id.
std::uint32_t hash_of(const IdKey& key) {
  return static_cast<std::uint32_t>(point_hash(key.first, key.second, kPart) >> 32);
}

IdKey read_key(ByteReader& reader) {
  reader.read<std::uint32_t>();  // the hash
  IdKey key;
  key.first = reader.read<std::uint64_t>();
  key.second = reader.read<std::uint64_t>();
  return key;
}

}  // namespace

IdKey key_of(const RowId& id) {
  if (const auto* integer = std::get_if<std::int64_t>(&id))
    return {static_cast<std::uint64_t>(*integer), 0};
  std::string_view text = std::get<std::string>(id);
  IdKey key{text.size(), text.size()};
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::size_t bytes = std::min(text.size(), sizeof(word));
    std::memcpy(&word, text.data(), bytes);
    text.remove_prefix(bytes);
    key = {point_hash(word, key.first, kFirst), point_hash(word, key.second, kSecond)};
  }
  return key;
}

IdIndex::IdIndex(std::filesystem::path folder, std::uint64_t rows)
    : folder_(made(std::move(folder))),
      parts_{std::uint64_t{1} << 32,
             static_cast<std::uint32_t>(std::min(rows / kRowsOfPart + 1, kMaxBatches))},
      ids_(folder_, "ids", parts_, kIdBytes),
      references_(folder_, "references", parts_, kReferenceBytes) {}

IdIndex::~IdIndex() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void IdIndex::add(const IdKey& key, PointId row) {
  record_.clear();
  record_.write(hash_of(key));
  record_.write(key.first);
  record_.write(key.second);
  record_.write(row);
  ids_.add(record_.bytes());
}

void IdIndex::add_reference(const IdReference& reference) {
  record_.clear();
  record_.write(hash_of(reference.to));
  record_.write(reference.to.first);
  record_.write(reference.to.second);
  record_.write(reference.from);
  record_.write(reference.similarity);
  references_.add(record_.bytes());
}

std::optional<IdIndex::Duplicate> IdIndex::resolve(
    const std::function<void(const IdReference&, std::optional<PointId>)>& visit) {
  using Row = std::pair<IdKey, PointId>;
  ids_.commit();
  references_.commit();
  std::optional<Duplicate> duplicate;
  std::vector<Row> rows;
  for (std::uint32_t part = 0; part < parts_.shards; ++part) {
    rows.clear();
    ids_.drain(part, [&](ByteReader& reader) {
      const IdKey key = read_key(reader);
      rows.emplace_back(key, reader.read<PointId>());
    });
    std::ranges::sort(rows);
    for (std::size_t i = 1; i < rows.size(); ++i)
      if (rows[i - 1].first == rows[i].first && (!duplicate || rows[i].second < duplicate->row))
        duplicate = {rows[i].second, rows[i - 1].second};
    references_.drain(part, [&](ByteReader& reader) {
      IdReference reference{read_key(reader)};
      reference.from = reader.read<PointId>();
      reference.similarity = reader.read<float>();
      if (duplicate) return;
      const auto found = std::ranges::lower_bound(rows, reference.to, {}, &Row::first);
      const bool is_there = found != rows.end() && found->first == reference.to;
      visit(reference, is_there ? std::optional(found->second) : std::nullopt);
    });
  }
  return duplicate;
}

}  // namespace weft::apps
