#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace weft::test {

/// Writes the Parquet files of tests/support/parquet_files into a folder. Returns "" on success.
/// Otherwise returns the reason for GTEST_SKIP(): python3 has no pyarrow.
inline std::string write_parquet_files(const std::filesystem::path& folder) {
  const std::filesystem::path arrow = WEFT_ARROW_FOLDER;
  const std::string command =
      fmt::format("PYTHONPATH='{}' python3 -B '{}/tests/support/parquet_files' '{}' >'{}' 2>&1",
                  arrow.parent_path().string(), WEFT_SOURCE_FOLDER, folder.string(),
                  (folder / "python.log").string());
  if (std::system(command.c_str()) == 0) return "";
  return fmt::format("python3 has no pyarrow of {}; run apps/install_arrow with this python3",
                     arrow.string());
}

}  // namespace weft::test
