#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "apps/parquet/parquet.h"

namespace weft::apps {

/// Opens or creates a Parquet file. Arrow allocates from the system's allocator only: see
/// parquet_library().
std::unique_ptr<ParquetReader> open_parquet(const std::filesystem::path& path);
std::unique_ptr<ParquetWriter> create_parquet(const std::filesystem::path& path);

/// Failed arrow::Status as an exception. The reader and the writer catch it and throw an Error that
/// names the file.
class ArrowException final : public std::exception {
 public:
  explicit ArrowException(const arrow::Status& status) : status_(status) {}
  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  const arrow::Status status_;
};

inline void throw_unless_ok(const arrow::Status& status) {
  if (!status.ok()) throw ArrowException(status);
}
template <typename T>
T value_or_throw(arrow::Result<T> result) {
  throw_unless_ok(result.status());
  return std::move(result).MoveValueUnsafe();
}

}  // namespace weft::apps
