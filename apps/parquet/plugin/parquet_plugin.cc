// libweft_parquet.so: Parquet files with Arrow C++, taken from PyPI's pyarrow. Only this plugin
// links Arrow and Parquet.
#include <arrow/config.h>

#include "apps/parquet/plugin/arrow_files.h"

namespace weft::apps {
namespace {

class ArrowLibrary final : public ParquetLibrary {
 public:
  std::string name() const override { return "Arrow " + arrow::GetBuildInfo().version_string; }
  std::unique_ptr<ParquetReader> open(const std::filesystem::path& path) const override {
    return open_parquet(path);
  }
  std::unique_ptr<ParquetWriter> create(const std::filesystem::path& path) const override {
    return create_parquet(path);
  }
};

}  // namespace
}  // namespace weft::apps

extern "C" [[gnu::visibility("default")]] weft::apps::ParquetLibrary* weft_parquet_plugin(
    std::uint64_t stamp) {
  return stamp == weft::apps::ParquetLibrary::stamp() ? new weft::apps::ArrowLibrary : nullptr;
}
