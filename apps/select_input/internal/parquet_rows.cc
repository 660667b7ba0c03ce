#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "apps/parquet/parquet.h"
#include "apps/select_input/internal/given_neighbours.h"
#include "apps/select_input/internal/id_index.h"
#include "apps/select_input/internal/preparation.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

/// Maximum neighbours of a row, as of graph.neighbors.
constexpr std::size_t kMostNeighbours = 1000;

std::string text_of(const RowId& id) {
  const auto* const integer = std::get_if<std::int64_t>(&id);
  return integer != nullptr ? std::to_string(*integer) : "'" + std::get<std::string>(id) + "'";
}

std::string names_of(const std::vector<ParquetField>& fields) {
  std::string names;
  for (const ParquetField& field : fields)
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", field.name, field.type);
  return names;
}

/// Files to read and their common columns.
struct ParquetPlan {
  std::vector<fs::path> files;
  ParquetColumns columns = {};
  std::uint64_t rows = 0;
  bool has_similarities = false;  ///< True if neighbours have similarities.
};

/// Lookup of the requested columns in one file.
class ColumnSearch final {
 public:
  ColumnSearch(const fs::path& path, const std::vector<ParquetField>& fields)
      : path_(path), fields_(fields) {}

  const ParquetField* find(const std::string& name) const {
    const auto found = std::ranges::find(fields_, name, &ParquetField::name);
    return found == fields_.end() ? nullptr : &*found;
  }
  const ParquetField& of_type(const std::string& name, std::string_view key,
                              bool ParquetField::*is_right, std::string_view wanted) const {
    const ParquetField* const field = find(name);
    if (field == nullptr)
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has no column '{}': let input.{} be one of its columns, which are {}",
                  path_.string(), name, key, names_of(fields_));
    if (!(field->*is_right))
      throw_error(
          ErrorCode::kInvalidArgument,
          "{}: column {} is of type {}, but {}; let input.{} be another one of its columns, "
          "which are {}, or cast it",
          path_.string(), name, field->type, wanted, key, names_of(fields_));
    return *field;
  }
  /// Returns the only column of vectors, "" if there is none. Throws if there are several.
  std::string vectors() const {
    std::string name;
    for (const ParquetField& field : fields_) {
      if (!field.is_vector) continue;
      if (!name.empty())
        throw_error(ErrorCode::kInvalidArgument,
                    "{} has more than one column of vectors: say with input.vector which of them "
                    "it is: {}",
                    path_.string(), names_of(fields_));
      name = field.name;
    }
    return name;
  }
  void refuse(std::string_view what) const {
    throw_error(ErrorCode::kInvalidArgument, "{}: {}; its columns are {}", path_.string(), what,
                names_of(fields_));
  }

 private:
  const fs::path& path_;
  const std::vector<ParquetField>& fields_;
};

/// Resolves the columns of an input by its first file.
ParquetColumns columns_of(const SelectInput& input, const ColumnSearch& search) {
  ParquetColumns columns{input.id, input.vector, "", input.neighbours};
  if (columns.id.empty() && search.find("id") != nullptr) columns.id = "id";
  if (columns.vector.empty()) columns.vector = search.vectors();
  if (input.utility != "flat" && !is_npy(input.utility)) columns.utility = input.utility;
  return columns;
}

/// Content of a file's rows, which must be the same in all files.
struct RowContent {
  bool has_text_ids = false, has_similarities = false;
  friend bool operator==(const RowContent&, const RowContent&) = default;
};

/// Checks the types of a file's columns. Throws Error(kInvalidArgument) if one does not fit.
RowContent check_columns(const ParquetColumns& columns, const ColumnSearch& search) {
  RowContent rows;
  if (!columns.id.empty())
    rows.has_text_ids = search
                            .of_type(columns.id, "id", &ParquetField::is_id,
                                     "an id is an integer of up to 64 bits or a string")
                            .is_text;
  if (!columns.vector.empty())
    search.of_type(columns.vector, "vector", &ParquetField::is_vector,
                   "a vector is a list of float or double");
  if (!columns.utility.empty())
    search.of_type(columns.utility, "utility", &ParquetField::is_number, "a utility is a number");
  if (!columns.neighbours.empty()) {
    const ParquetField& neighbours = search.of_type(
        columns.neighbours, "neighbors", &ParquetField::is_neighbours,
        "neighbours are a list of ids, or of structs with the fields id and similarity");
    if (neighbours.is_text != rows.has_text_ids)
      search.refuse(fmt::format("neighbours are named by {}, rows by {}; cast one to the other",
                                neighbours.is_text ? "strings" : "integers",
                                columns.id.empty()  ? "their number, as there is no column id"
                                : rows.has_text_ids ? "strings"
                                                    : "integers"));
    rows.has_similarities = neighbours.has_similarities;
  }
  if (columns.vector.empty() && !rows.has_similarities)
    search.refuse(
        "it has no column of vectors, which are lists of float or double, and no neighbours with "
        "similarities");
  return rows;
}

ParquetPlan plan_parquet(const SelectInput& input) {
  ParquetPlan plan{.files = parquet_files(input.path)};
  RowContent first_rows;
  for (const fs::path& path : plan.files) {
    const auto reader = parquet_library().open(path);
    const ColumnSearch search(path, reader->fields());
    const bool is_first = &path == &plan.files.front();
    if (is_first) plan.columns = columns_of(input, search);
    const RowContent rows = check_columns(plan.columns, search);
    if (is_first) first_rows = rows;
    if (rows != first_rows)
      search.refuse(fmt::format("columns differ from those of {}; write all alike",
                                plan.files.front().string()));
    plan.has_similarities = rows.has_similarities;
    plan.rows += reader->num_rows();
  }
  return plan;
}

/// Conversion of one set of files to vectors, utilities, places and neighbours.
class ParquetPreparation final {
 public:
  explicit ParquetPreparation(Preparation& preparation)
      : preparation_(preparation),
        result_(preparation.result),
        plan_(plan_parquet(preparation.input)) {
    // The width is not known yet; 2 is the least that passes.
    check_shape(preparation.input.path, plan_.rows, 2);
    index_.emplace(waiting(), plan_.rows);
  }

  void run() {
    for (const fs::path& path : plan_.files) {
      const auto reader = parquet_library().open(path);
      reader->select(plan_.columns);
      ParquetRows rows;
      for (std::uint64_t first = 0; reader->next(rows); first += rows.count) {
        preparation_.report_progress("read rows", row_, plan_.rows);
        take(rows, path.string(), first);
      }
    }
    write_blocks(0);
    preparation_.commit_vectors();
    if (!plan_.columns.utility.empty()) preparation_.commit_utility();
    result_.has_ids = true;
    preparation_.record_duration("read");
    link();
    preparation_.record_duration("ids and neighbours");
  }

 private:
  fs::path waiting() const { return result_.folder / "waiting"; }

  void take(const ParquetRows& rows, const std::string& path, std::uint64_t first) {
    if (!plan_.columns.vector.empty()) {
      if (row_ == 0) {
        check_shape(path, plan_.rows, rows.width);
        preparation_.begin_vectors(rows.width);
      }
      if (rows.width != result_.width)
        throw_error(ErrorCode::kInvalidArgument,
                    "{}, row {}, column {}: the vector has {} numbers, but those of {} have {}: "
                    "all have the same length",
                    path, first, plan_.columns.vector, rows.width, plan_.files.front().string(),
                    result_.width);
      require_valid_vectors(rows.vectors, rows.width, path, first);
      vectors_.insert(vectors_.end(), rows.vectors.begin(), rows.vectors.end());
    }
    for (std::size_t i = 0; i < rows.utilities.size(); ++i) {
      const float utility = rows.utilities[i];
      if (!std::isfinite(utility) || utility < 0)
        throw_error(ErrorCode::kInvalidArgument,
                    "{}, row {}, column {}: the utility is {}, not a number of at least 0; give it "
                    "one, or leave the row out",
                    path, first + i, plan_.columns.utility, utility);
    }
    utilities_.insert(utilities_.end(), rows.utilities.begin(), rows.utilities.end());
    const std::uint64_t row = row_;
    for (std::size_t i = 0; i < rows.count; ++i, ++row_) {
      RowId id = rows.ids.empty() ? RowId(static_cast<std::int64_t>(row_)) : rows.ids[i];
      index_->add(key_of(id), static_cast<PointId>(row_));
      preparation_.append_place({.path = path, .offset = first + i, .id = std::move(id)});
    }
    if (!plan_.columns.neighbours.empty()) take_neighbours(rows, path, first, row);
    write_blocks(kBlockRows);
  }

  void take_neighbours(const ParquetRows& rows, const std::string& path, std::uint64_t first,
                       std::uint64_t row) {
    std::size_t i = 0;
    for (std::size_t of_block = 0; of_block < rows.count; ++of_block) {
      const std::size_t degree = rows.ends[of_block] - i;
      const auto refuse = [&](const std::string& what) {
        throw_error(ErrorCode::kInvalidArgument, "{}, row {}, column {}: {}", path,
                    first + of_block, plan_.columns.neighbours, what);
      };
      if (degree > kMostNeighbours)
        refuse(fmt::format("{} neighbours; at most {} of a row can be given: keep the most similar",
                           degree, kMostNeighbours));
      most_ = std::max(most_, degree);
      for (; i < rows.ends[of_block]; ++i) {
        // Similarities that were not given are computed from the vectors later.
        const float similarity = plan_.has_similarities ? rows.similarities[i] : 0;
        if (!(similarity >= 0 && similarity <= 1))
          refuse(
              fmt::format("the similarity to {} is {}, not from 0 to 1; scale all, or leave the "
                          "neighbour out",
                          text_of(rows.neighbours[i]), similarity));
        index_->add_reference(
            {key_of(rows.neighbours[i]), static_cast<PointId>(row + of_block), similarity});
      }
    }
  }

  /// Writes full blocks of kBlockRows rows, as for other kinds of files, so that digests are equal.
  /// Keeps the rest while it has fewer than `at_least` rows; 0 writes everything.
  void write_blocks(std::size_t at_least) {
    const std::size_t width = result_.width;
    const auto write = [&](std::vector<float>& values, std::size_t columns, const auto& append) {
      while (columns > 0 && !values.empty() && values.size() >= at_least * columns) {
        const std::size_t count = std::min(values.size(), kBlockRows * columns);
        append(std::span(values).first(count));
        values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
      }
    };
    write(vectors_, width, [&](std::span<float> block) { preparation_.append(block); });
    write(utilities_, 1, [&](std::span<float> block) { preparation_.append_utility(block); });
  }

  /// Checks that ids are unique, and converts neighbours' ids to rows.
  void link() {
    const bool has_neighbours = !plan_.columns.neighbours.empty();
    std::optional<GivenNeighbours> given;
    if (has_neighbours) given.emplace(waiting(), plan_.rows);
    const auto duplicate =
        index_->resolve([&](const IdReference& reference, std::optional<PointId> row) {
          if (!row) refuse_dangling(reference);
          if (*row == reference.from)
            refuse_row(*row, "the row is its own neighbour; leave it out of the list");
          given->add(reference.from, *row, reference.similarity);
        });
    if (duplicate)
      refuse_row(duplicate->row,
                 fmt::format("that is also the id of {}; give each row one of its own",
                             where(duplicate->before)));
    if (!has_neighbours) return;
    std::optional<NpyFile> vectors;
    if (!plan_.has_similarities) vectors.emplace(result_.vectors());
    const GivenNeighbours::Written written =
        given->write(result_, most_, vectors ? &*vectors : nullptr, [&](std::uint64_t rows) {
          preparation_.report_progress("link neighbours", rows, plan_.rows);
        });
    if (written.invalid_edge) refuse_edge(*written.invalid_edge);
    result_.has_neighbours = true;
    const std::string both = result_.digest + "|" + written.digest;
    result_.digest = sha256(std::as_bytes(std::span(both)));
  }

  // Errors about rows that were already read.
  RowOrigin place_of(PointId row) const { return RowOriginReader(result_.places()).at(row); }
  std::string where(PointId row) const {
    const RowOrigin place = place_of(row);
    return fmt::format("{}, row {}", place.path, *place.offset);
  }
  [[noreturn]] void refuse_row(PointId row, std::string_view what) const {
    throw_error(ErrorCode::kInvalidArgument, "{}, id {}: {}", where(row),
                text_of(*place_of(row).id), what);
  }
  [[noreturn]] void refuse_edge(const GivenNeighbours::InvalidEdge& edge) const {
    using Why = GivenNeighbours::InvalidEdge::Why;
    const std::string other = text_of(*place_of(edge.other).id);
    switch (edge.why) {
      case Why::kTwice:
        refuse_row(edge.row, fmt::format("the neighbour {} comes twice; leave one out", other));
      case Why::kMissing:
        refuse_row(edge.row, fmt::format("the neighbour {} is missing, although that row ({}) "
                                         "lists this row; add it, or remove the other entry",
                                         other, where(edge.other)));
      case Why::kOtherSimilarity:
        refuse_row(
            edge.row,
            fmt::format(
                "the similarity to {} differs from the one in that row ({}); make them equal",
                other, where(edge.other)));
    }
    throw_error(
        ErrorCode::kInternal,
        "the cause of an invalid edge is none that this program knows; report this as a bug");
  }
  /// Reports a neighbour id that no row has. Reads the row again, as only the id's hash was kept.
  [[noreturn]] void refuse_dangling(const IdReference& reference) const {
    const RowOrigin place = place_of(reference.from);
    const auto reader = parquet_library().open(place.path);
    reader->select({.neighbours = plan_.columns.neighbours});
    std::string name;
    ParquetRows rows;
    for (std::uint64_t first = 0; first <= *place.offset && reader->next(rows);
         first += rows.count) {
      for (const RowId& id : rows.neighbours)
        if (key_of(id) == reference.to) name = text_of(id);
    }
    refuse_row(reference.from, fmt::format("the neighbour {} is the id of no row; leave it out, or "
                                           "add its row",
                                           name));
  }

  Preparation& preparation_;
  PreparedInput& result_;
  const ParquetPlan plan_;
  std::optional<IdIndex> index_;
  std::uint64_t row_ = 0;                   ///< Number of the next row, over all files.
  std::vector<float> vectors_, utilities_;  ///< Rows that do not fill a block yet.
  std::size_t most_ = 0;                    ///< Largest number of neighbours of a row.
};

}  // namespace

std::uint64_t rows_of_parquet(const SelectInput& input) { return plan_parquet(input).rows; }

void prepare_parquet(Preparation& preparation) { ParquetPreparation(preparation).run(); }

}  // namespace weft::apps
