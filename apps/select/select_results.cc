#include "apps/select/select_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/data/chosen_rows.h"
#include "apps/parquet/parquet.h"
#include "apps/select/point_sample.h"
#include "apps/select_input/contact_sheet.h"
#include "apps/select_input/row_origin.h"
#include "core/base/error.h"
#include "core/base/folder.h"

namespace weft::apps {
namespace {

/// Escapes a text so that it fits in one cell of a table.
std::string in_table(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\t') escaped += "\\t";
    else if (c == '\n') escaped += "\\n";
    else if (c == '\r') escaped += "\\r";
    else if (c == '\\') escaped += "\\\\";
    else escaped += c;
  }
  return escaped;
}

std::string in_table(const RowId& id) {
  if (const auto* integer = std::get_if<std::int64_t>(&id)) return std::to_string(*integer);
  return in_table(std::get<std::string>(id));
}

/// Writer of chosen rows as Parquet, in several files that engines can read in parallel.
class ChosenParquet final {
 public:
  static constexpr std::uint64_t kRowsOfPart = 1 << 22;

  explicit ChosenParquet(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::error_code failed;
    std::filesystem::remove_all(folder_, failed);
    if (failed)
      throw_error(ErrorCode::kUnavailable, "cannot remove {}: {}; give another --out",
                  folder_.string(), failed.message());
    make_folders(folder_, "give another --out");
  }
  void append(const ChosenParquetRow& row) {
    if (rows_ % kRowsOfPart == 0) {
      close();
      part_ = parquet_library().create(folder_ /
                                       fmt::format("part-{:05}.parquet", rows_ / kRowsOfPart));
    }
    part_->append(row);
    ++rows_;
  }
  void close() {
    if (part_) part_->close();
    part_.reset();
  }

 private:
  const std::filesystem::path folder_;
  std::unique_ptr<ParquetWriter> part_;
  std::uint64_t rows_ = 0;
};

/// Writer of chosen.tsv, points.u32 and, for rows with ids, chosen.parquet.
class ChosenFiles final {
 public:
  ChosenFiles(const PreparedInput* prepared, const std::filesystem::path& folder)
      : folder_(folder),
        has_ids_(prepared != nullptr && prepared->has_ids),
        has_contents_(prepared != nullptr && prepared->kind != InputKind::kVectors),
        table_(folder / "chosen.tsv"),
        ids_(ChosenRows::rows_in(folder), std::ios::binary) {
    if (has_ids_ || has_contents_) places_.emplace(prepared->places());
    if (has_ids_) parquet_.emplace(folder / "chosen.parquet");
    table_ << "point\tutility\tgain\tdecided_by"
           << (has_ids_        ? "\tid\tpath\trow"
               : has_contents_ ? "\tpath\toffset\tlength\tlabel"
                               : "")
           << "\n";
  }

  void append(const ResultPoint& point) {
    table_ << fmt::format("{}\t{:.5f}\t{}\t{}", point.id, point.utility / 65535.0, point.gain,
                          point.round == 0 ? "bound" : fmt::format("round {}", point.round));
    if (places_) append_origin(point, places_->at(point.id));
    table_ << "\n";
    ids_.write(reinterpret_cast<const char*>(&point.id), sizeof(point.id));
  }

  /// Throws Error(kResourceExhausted) if the disk is full.
  void close() {
    if (parquet_) parquet_->close();
    if (!table_.flush() || !ids_.flush())
      throw_error(ErrorCode::kResourceExhausted,
                  "cannot write the results into {}; make room there", folder_.string());
  }

 private:
  void append_origin(const ResultPoint& point, const RowOrigin& place) {
    const auto number = [](const std::optional<std::uint64_t>& value) {
      return value ? std::to_string(*value) : std::string();
    };
    if (has_ids_) table_ << "\t" << in_table(place.id.value());
    table_ << "\t" << in_table(place.path) << "\t" << number(place.offset);
    if (has_contents_) table_ << "\t" << number(place.length) << "\t" << in_table(place.label);
    if (parquet_)
      parquet_->append({.id = place.id.value(),
                        .path = place.path,
                        .row = place.offset.value(),
                        .utility = static_cast<float>(point.utility / 65535.0),
                        .gain = point.gain,
                        .round = point.round});
  }

  const std::filesystem::path folder_;
  const bool has_ids_, has_contents_;
  std::ofstream table_, ids_;
  std::optional<RowOriginReader> places_;
  std::optional<ChosenParquet> parquet_;
};

/// Returns the neighbours of some chosen rows that are not chosen themselves.
std::vector<RejectedNeighbour> rejected_neighbours(SelectionRun& selection,
                                                   const std::vector<PointId>& shown) {
  std::vector<RejectedNeighbour> neighbours;
  std::set<std::uint64_t> beside;
  for (const PointNeighbour& edge : selection.neighbours_of(shown)) {
    neighbours.push_back({edge.point, edge.neighbour, edge.similarity / 65535.0});
    beside.insert(edge.neighbour);
  }
  std::set<std::uint64_t> also_chosen;
  selection.each_result([&](const ResultPoint& point) {
    if (beside.contains(point.id)) also_chosen.insert(point.id);
  });
  std::erase_if(neighbours, [&](const RejectedNeighbour& neighbour) {
    return also_chosen.contains(neighbour.rejected);
  });
  return neighbours;
}

}  // namespace

std::optional<std::filesystem::path> write_results(SelectionRun& selection, std::uint64_t points,
                                                   const SelectInput* input,
                                                   const PreparedInput* prepared,
                                                   std::uint64_t seed,
                                                   const std::filesystem::path& folder) {
  ChosenFiles files(prepared, folder);
  PointSample drawn(kStripsOfSheet, seed);
  std::uint64_t count = 0;
  selection.each_result([&](const ResultPoint& point) {
    files.append(point);
    drawn.offer(point.id);
    ++count;
  });
  files.close();
  ChosenRows::write_description(folder, count, points,
                                prepared == nullptr ? "" : prepared->data_digest);
  if (prepared == nullptr || prepared->kind == InputKind::kVectors) return std::nullopt;
  const std::vector<PointId> shown = drawn.take();
  const std::vector<std::uint64_t> chosen(shown.begin(), shown.end());
  return write_contact_sheet(*input, *prepared, chosen, rejected_neighbours(selection, shown),
                             folder);
}

}  // namespace weft::apps
