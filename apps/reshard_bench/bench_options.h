#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace weft::apps {

/// What `weft bench reshard` was asked for.
struct BenchOptions {
  std::vector<std::string> cases;       ///< Empty: all.
  std::vector<std::string> strategies;  ///< Empty: all.
  std::uint64_t bytes = std::uint64_t{64} << 20;
  int hosts = 8;                ///< At most so many; cases that need more are left out, layouts are made smaller.
  std::uint64_t rate_bits = 0;  ///< Per link, each way; 0: by the number of hosts, see rate_for().
  int repeat = 5;
  bool quick = false;
  bool loopback = false;  ///< On this machine as it is, even where test hosts are to be had.
  std::string json;       ///< A file, "-" for stdout, or empty.
  std::filesystem::path out = "runs/bench-reshard";
};

}  // namespace weft::apps
