#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <array>
#include <optional>
#include <utility>

#include "apps/parquet/plugin/arrow_files.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

/// Rows of a row group.
constexpr std::int64_t kGroupRows = 64 << 10;

class ArrowWriter final : public ParquetWriter {
 public:
  explicit ArrowWriter(const std::filesystem::path& path)
      : path_(path), temporary_(path.string() + ".new") {
    auto opened = arrow::io::FileOutputStream::Open(temporary_.string());
    if (!opened.ok())
      throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", temporary_.string(),
                  opened.status().message());
    stream_ = std::move(opened).MoveValueUnsafe();
  }
  ArrowWriter(const ArrowWriter&) = delete;
  ArrowWriter& operator=(const ArrowWriter&) = delete;
  ~ArrowWriter() override {
    if (is_closed_) return;
    file_.reset();
    if (!stream_->closed()) (void)stream_->Abort();
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }

  void append(const ChosenParquetRow& row) override {
    guard([&] {
      if (!ids_) {
        has_texts_ = std::holds_alternative<std::string>(row.id);
        ids_ = has_texts_ ? std::unique_ptr<arrow::ArrayBuilder>(
                                std::make_unique<arrow::StringBuilder>(pool_))
                          : std::make_unique<arrow::Int64Builder>(pool_);
      }
      if (has_texts_)
        throw_unless_ok(
            static_cast<arrow::StringBuilder&>(*ids_).Append(std::get<std::string>(row.id)));
      else
        throw_unless_ok(
            static_cast<arrow::Int64Builder&>(*ids_).Append(std::get<std::int64_t>(row.id)));
      throw_unless_ok(paths_.Append(row.path));
      throw_unless_ok(rows_.Append(static_cast<std::int64_t>(row.row)));
      throw_unless_ok(utilities_.Append(row.utility));
      throw_unless_ok(gains_.Append(row.gain));
      throw_unless_ok(decided_.Append(row.round == 0 ? "bound" : "round"));
      throw_unless_ok(rounds_.Append(static_cast<std::int32_t>(row.round)));
      if (rows_.length() == kGroupRows) write_group();
    });
  }

  void close() override {
    guard([&] {
      if (rows_.length() > 0) write_group();
      if (file_) throw_unless_ok(file_->Close());
      throw_unless_ok(stream_->Close());
    });
    rename_file(temporary_, path_);
    is_closed_ = true;
  }

 private:
  template <typename F>
  void guard(const F& f) const {
    try {
      f();
    } catch (const std::exception& failure) {  // an ArrowException or parquet::ParquetException
      throw_error(ErrorCode::kResourceExhausted,
                  "cannot write {}: {}; make room there, or give another --out",
                  temporary_.string(), failure.what());
    }
  }

  void write_group() {
    const std::array<std::pair<const char*, arrow::ArrayBuilder*>, 7> builders = {
        {{"id", ids_.get()},
         {"path", &paths_},
         {"row", &rows_},
         {"utility", &utilities_},
         {"gain", &gains_},
         {"decided_by", &decided_},
         {"round", &rounds_}}};
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    const std::int64_t count = rows_.length();
    for (const auto& [name, builder] : builders) {
      fields.push_back(arrow::field(name, builder->type(), /*nullable=*/false));
      arrays.push_back(value_or_throw(builder->Finish()));
    }
    const auto schema = arrow::schema(fields);
    if (!file_)
      file_ = value_or_throw(
          parquet::arrow::FileWriter::Open(*schema, pool_, stream_,
                                           parquet::WriterProperties::Builder()
                                               .memory_pool(pool_)
                                               ->compression(parquet::Compression::SNAPPY)
                                               ->build()));
    throw_unless_ok(file_->WriteTable(*arrow::Table::Make(schema, arrays, count), count));
  }

  arrow::MemoryPool* const pool_ = arrow::system_memory_pool();
  const std::filesystem::path path_, temporary_;
  std::shared_ptr<arrow::io::FileOutputStream> stream_;
  std::unique_ptr<parquet::arrow::FileWriter> file_;  ///< Null until the first group is written.
  bool has_texts_ = false, is_closed_ = false;
  std::unique_ptr<arrow::ArrayBuilder> ids_;  ///< Null until the first row shows the kind of the
                                              ///< ids.
  arrow::StringBuilder paths_{pool_}, decided_{pool_};
  arrow::Int64Builder rows_{pool_}, gains_{pool_};
  arrow::FloatBuilder utilities_{pool_};
  arrow::Int32Builder rounds_{pool_};
};

}  // namespace

std::unique_ptr<ParquetWriter> create_parquet(const std::filesystem::path& path) {
  return std::make_unique<ArrowWriter>(path);
}

}  // namespace weft::apps
