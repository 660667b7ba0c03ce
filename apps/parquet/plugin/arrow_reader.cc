#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "apps/parquet/plugin/arrow_files.h"
#include "core/base/error.h"
#include "core/tensor/float16.h"

namespace weft::apps {
namespace {

constexpr std::int64_t kBufferBytes = 256 << 10;  // per column

bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING ||
         type.id() == arrow::Type::STRING_VIEW;
}
/// Returns the type of a column's values. For a dictionary-encoded column, the dictionary's.
const arrow::DataType& value_type(const arrow::DataType& type) {
  if (type.id() != arrow::Type::DICTIONARY) return type;
  return *static_cast<const arrow::DictionaryType&>(type).value_type();
}
bool is_id(const arrow::DataType& type) {
  return is_text(value_type(type)) || arrow::is_integer(value_type(type).id());
}
bool is_float(const arrow::DataType& type) { return arrow::is_floating(type.id()); }
bool is_number(const arrow::DataType& type) {
  return is_float(type) || arrow::is_integer(type.id()) || type.id() == arrow::Type::DECIMAL128 ||
         type.id() == arrow::Type::DECIMAL256;
}

/// Returns the element type of any kind of list, null for other types.
std::shared_ptr<arrow::DataType> element_of(const arrow::DataType& type) {
  const bool is_list = type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST ||
                       type.id() == arrow::Type::FIXED_SIZE_LIST;
  return is_list ? type.field(0)->type() : nullptr;
}

/// Returns the type of a neighbour's id in a list of ids or of structs, null for other types.
std::shared_ptr<arrow::DataType> neighbour_of(const arrow::DataType& list) {
  std::shared_ptr<arrow::DataType> element = element_of(list);
  if (!element || is_id(*element)) return element;
  if (element->id() != arrow::Type::STRUCT) return nullptr;
  const auto& of = static_cast<const arrow::StructType&>(*element);
  const auto id = of.GetFieldByName("id"), similarity = of.GetFieldByName("similarity");
  if (!id || !similarity || !is_id(*id->type()) || !is_number(*similarity->type())) return nullptr;
  return id->type();
}

ParquetField field_of(const arrow::Field& field) {
  const arrow::DataType& type = *field.type();
  ParquetField result{field.name(), type.ToString()};
  const auto element = element_of(type), neighbour = neighbour_of(type);
  result.is_id = is_id(type);
  result.is_text = is_text(value_type(neighbour ? *neighbour : type));
  result.is_number = is_number(type);
  result.is_vector = element && is_float(*element);
  result.is_neighbours = neighbour != nullptr;
  result.has_similarities = neighbour && neighbour != element;
  return result;
}

/// Appends the indices of the Parquet columns (leaves) that make up a field.
void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const parquet::arrow::SchemaField& child : field.children) add_leaves(child, leaves);
}

template <typename Array>
const Array& as(const arrow::Array& array) {
  return static_cast<const Array&>(array);
}

/// Lists of a column. Row i's list is the elements from ends[i] to ends[i + 1].
struct Lists {
  std::shared_ptr<arrow::Array> values;
  std::vector<std::int64_t> ends = {};

  std::int64_t first(std::int64_t row) const { return ends[row]; }
  std::int64_t past(std::int64_t row) const { return ends[row + 1]; }
};

template <typename Array>
Lists lists_of(const Array& array) {
  Lists lists{array.values()};
  // No row is null, so each list begins where the previous one ends.
  for (std::int64_t row = 0; row <= array.length(); ++row)
    lists.ends.push_back(array.value_offset(row));
  return lists;
}

Lists lists_of_column(const arrow::Array& array) {
  if (array.type_id() == arrow::Type::LIST) return lists_of(as<arrow::ListArray>(array));
  if (array.type_id() == arrow::Type::LARGE_LIST) return lists_of(as<arrow::LargeListArray>(array));
  return lists_of(as<arrow::FixedSizeListArray>(array));
}

/// Returns null for an unsigned integer that does not fit into 63 bits.
std::optional<std::int64_t> integer_at(const arrow::Array& array, std::int64_t i) {
  switch (array.type_id()) {
    case arrow::Type::INT8: return as<arrow::Int8Array>(array).Value(i);
    case arrow::Type::INT16: return as<arrow::Int16Array>(array).Value(i);
    case arrow::Type::INT32: return as<arrow::Int32Array>(array).Value(i);
    case arrow::Type::UINT8: return as<arrow::UInt8Array>(array).Value(i);
    case arrow::Type::UINT16: return as<arrow::UInt16Array>(array).Value(i);
    case arrow::Type::UINT32: return as<arrow::UInt32Array>(array).Value(i);
    case arrow::Type::UINT64: {
      const std::uint64_t value = as<arrow::UInt64Array>(array).Value(i);
      if (value >> 63 != 0) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default: return as<arrow::Int64Array>(array).Value(i);
  }
}

std::string_view text_at(const arrow::Array& array, std::int64_t i) {
  if (array.type_id() == arrow::Type::STRING) return as<arrow::StringArray>(array).GetView(i);
  if (array.type_id() == arrow::Type::STRING_VIEW)
    return as<arrow::StringViewArray>(array).GetView(i);
  return as<arrow::LargeStringArray>(array).GetView(i);
}

float number_at(const arrow::Array& array, std::int64_t i) {
  const arrow::DataType& type = *array.type();
  switch (type.id()) {
    case arrow::Type::HALF_FLOAT: return half_to_float(as<arrow::HalfFloatArray>(array).Value(i));
    case arrow::Type::FLOAT: return as<arrow::FloatArray>(array).Value(i);
    case arrow::Type::DOUBLE: return static_cast<float>(as<arrow::DoubleArray>(array).Value(i));
    case arrow::Type::DECIMAL128: {
      const arrow::Decimal128 value(as<arrow::Decimal128Array>(array).GetValue(i));
      return static_cast<float>(
          value.ToDouble(static_cast<const arrow::Decimal128Type&>(type).scale()));
    }
    case arrow::Type::DECIMAL256: {
      const arrow::Decimal256 value(as<arrow::Decimal256Array>(array).GetValue(i));
      return static_cast<float>(
          value.ToDouble(static_cast<const arrow::Decimal256Type&>(type).scale()));
    }
    case arrow::Type::UINT64: return static_cast<float>(as<arrow::UInt64Array>(array).Value(i));
    default: return static_cast<float>(*integer_at(array, i));
  }
}

class ArrowReader final : public ParquetReader {
 public:
  explicit ArrowReader(const std::filesystem::path& path) : path_(path.string()) {
    auto opened = arrow::io::ReadableFile::Open(path_, arrow::system_memory_pool());
    if (!opened.ok())
      throw_error(ErrorCode::kNotFound, "cannot read {}: {}", path_, opened.status().message());
    guard([&] {
      parquet::ReaderProperties properties(arrow::system_memory_pool());
      properties.enable_buffered_stream();
      properties.set_buffer_size(kBufferBytes);
      properties.set_page_checksum_verification(true);
      parquet::ArrowReaderProperties of_arrow(/*use_threads=*/false);
      of_arrow.set_pre_buffer(false);  // pre-buffering would hold a whole row group in memory
      of_arrow.set_batch_size(kRows);
      parquet::arrow::FileReaderBuilder builder;
      throw_unless_ok(builder.Open(std::move(opened).MoveValueUnsafe(), properties));
      builder.memory_pool(arrow::system_memory_pool());
      builder.properties(of_arrow);
      file_ = value_or_throw(builder.Build());
      std::shared_ptr<arrow::Schema> schema;
      throw_unless_ok(file_->GetSchema(&schema));
      for (const auto& field : schema->fields()) fields_.push_back(field_of(*field));
      rows_ = file_->parquet_reader()->metadata()->num_rows();
    });
  }

  std::uint64_t num_rows() const override { return rows_; }
  const std::vector<ParquetField>& fields() const override { return fields_; }

  void select(const ParquetColumns& columns) override {
    columns_ = columns;
    guard([&] {
      std::vector<int> leaves, groups(file_->num_row_groups());
      std::iota(groups.begin(), groups.end(), 0);
      const auto& of_schema = file_->manifest().schema_fields;
      for (std::size_t i = 0; i < fields_.size(); ++i) {
        const std::string& name = fields_[i].name;
        if (name == columns.id || name == columns.vector || name == columns.utility ||
            name == columns.neighbours)
          add_leaves(of_schema[i], leaves);
      }
      batches_ = value_or_throw(file_->GetRecordBatchReader(groups, leaves));
    });
  }

  bool next(ParquetRows& rows) override {
    rows = {};
    std::shared_ptr<arrow::RecordBatch> batch;
    guard([&] {
      do {
        throw_unless_ok(batches_->ReadNext(&batch));
      } while (batch && batch->num_rows() == 0);
      if (batch) throw_unless_ok(batch->Validate());
    });
    if (!batch) {
      if (first_ != rows_) damaged(fmt::format("it ends after {} of {} rows", first_, rows_));
      return false;
    }
    rows.count = batch->num_rows();
    read_ids(*batch, rows);
    read_vectors(*batch, rows);
    read_utilities(*batch, rows);
    read_neighbours(*batch, rows);
    first_ += rows.count;
    return true;
  }

 private:
  /// Runs `f` and converts exceptions of Arrow and Parquet to Error(kDataLoss).
  template <typename F>
  void guard(const F& f) const {
    try {
      f();
    } catch (const std::exception& failure) {  // an ArrowException or parquet::ParquetException
      damaged(failure.what());
    }
  }
  [[noreturn]] void damaged(std::string_view what) const {
    throw_error(ErrorCode::kDataLoss,
                "{} is not a Parquet file, or it is truncated or damaged: {}; write it again",
                path_, what);
  }
  [[noreturn]] void refuse(std::int64_t row, const std::string& column,
                           std::string_view what) const {
    throw_error(ErrorCode::kInvalidArgument, "{}, row {}, column {}: {}", path_, first_ + row,
                column, what);
  }

  /// Returns the named column, null if `name` is empty. Throws if a value is missing.
  std::shared_ptr<arrow::Array> column(const arrow::RecordBatch& batch,
                                       const std::string& name) const {
    if (name.empty()) return nullptr;
    std::shared_ptr<arrow::Array> array = batch.GetColumnByName(name);
    if (!array) damaged(fmt::format("its column {} is missing", name));
    if (array->null_count() > 0) {
      std::int64_t row = 0;
      while (!array->IsNull(row)) ++row;
      refuse(row, name, "the value is missing (null); give it one, or leave the row out");
    }
    return array;
  }
  /// Throws if an element of a row's list is null.
  void expect_elements(const Lists& lists, const arrow::Array& elements, std::int64_t rows,
                       const std::string& name) const {
    if (elements.null_count() == 0) return;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = lists.first(row); i < lists.past(row); ++i)
        if (elements.IsNull(i))
          refuse(row, name,
                 fmt::format("element {} of the list is missing (null); give it a value, or leave "
                             "the row out",
                             i - lists.first(row)));
  }
  RowId id_at(const arrow::Array& array, std::int64_t i, std::int64_t row,
              const std::string& name) const {
    if (array.type_id() == arrow::Type::DICTIONARY) {
      const auto& encoded = as<arrow::DictionaryArray>(array);
      return id_at(*encoded.dictionary(), encoded.GetValueIndex(i), row, name);
    }
    if (is_text(*array.type())) return std::string(text_at(array, i));
    const auto id = integer_at(array, i);
    if (!id) refuse(row, name, "the id has 64 bits; 63 can be kept: cast ids to int64 or string");
    return *id;
  }

  void read_ids(const arrow::RecordBatch& batch, ParquetRows& rows) const {
    const auto array = column(batch, columns_.id);
    if (!array) return;
    for (std::int64_t row = 0; row < batch.num_rows(); ++row)
      rows.ids.push_back(id_at(*array, row, row, columns_.id));
  }

  void read_vectors(const arrow::RecordBatch& batch, ParquetRows& rows) {
    const auto array = column(batch, columns_.vector);
    if (!array) return;
    const Lists lists = lists_of_column(*array);
    const auto& values = lists.values;
    expect_elements(lists, *values, batch.num_rows(), columns_.vector);
    for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
      const auto width = static_cast<std::size_t>(lists.past(row) - lists.first(row));
      if (first_ == 0 && row == 0) width_ = width;
      if (width != width_)
        refuse(row, columns_.vector,
               fmt::format("the vector has {} numbers, but that of row 0 has {}: all have the same "
                           "length",
                           width, width_));
    }
    rows.width = width_;
    rows.vectors.resize(rows.count * width_);
    float* to = rows.vectors.data();
    for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
      const std::int64_t first = lists.first(row);
      if (values->type_id() == arrow::Type::FLOAT) {
        std::memcpy(to, as<arrow::FloatArray>(*values).raw_values() + first,
                    width_ * sizeof(float));
        to += width_;
      } else {
        for (std::size_t i = 0; i < width_; ++i)
          *to++ = number_at(*values, first + static_cast<std::int64_t>(i));
      }
    }
  }

  void read_utilities(const arrow::RecordBatch& batch, ParquetRows& rows) const {
    const auto array = column(batch, columns_.utility);
    if (!array) return;
    for (std::int64_t row = 0; row < batch.num_rows(); ++row)
      rows.utilities.push_back(number_at(*array, row));
  }

  void read_neighbours(const arrow::RecordBatch& batch, ParquetRows& rows) const {
    const auto array = column(batch, columns_.neighbours);
    if (!array) return;
    const Lists lists = lists_of_column(*array);
    const auto& values = lists.values;
    expect_elements(lists, *values, batch.num_rows(), columns_.neighbours);
    std::shared_ptr<arrow::Array> ids = values, similarities;
    if (values->type_id() == arrow::Type::STRUCT) {
      ids = as<arrow::StructArray>(*values).GetFieldByName("id");
      similarities = as<arrow::StructArray>(*values).GetFieldByName("similarity");
      expect_elements(lists, *ids, batch.num_rows(), columns_.neighbours);
      expect_elements(lists, *similarities, batch.num_rows(), columns_.neighbours);
    }
    for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
      for (std::int64_t i = lists.first(row); i < lists.past(row); ++i) {
        rows.neighbours.push_back(id_at(*ids, i, row, columns_.neighbours));
        if (similarities) rows.similarities.push_back(number_at(*similarities, i));
      }
      rows.ends.push_back(rows.neighbours.size());
    }
  }

  const std::string path_;
  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  std::vector<ParquetField> fields_;
  ParquetColumns columns_;
  std::uint64_t rows_ = 0;
  std::uint64_t first_ = 0;  ///< Row of the file that the next block begins with.
  std::size_t width_ = 0;
};

}  // namespace

std::unique_ptr<ParquetReader> open_parquet(const std::filesystem::path& path) {
  return std::make_unique<ArrowReader>(path);
}

}  // namespace weft::apps
