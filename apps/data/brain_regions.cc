#include "apps/data/brain_regions.h"

#include <fstream>
#include <sstream>
#include <string>

#include "core/base/error.h"

namespace weft::apps {

std::vector<std::uint8_t> read_region_table(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw_error(ErrorCode::kNotFound, "cannot read {}", path.string());
  std::vector<std::uint8_t> regions{0};
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::istringstream words(line);
    std::size_t label = 0;
    std::string name;
    int code = 0;
    const bool read = static_cast<bool>(words >> label >> name >> code);
    const int lobe = code / 1000;
    if (!read || label != regions.size() || lobe < 2 || lobe >= std::ssize(kBrainRegions))
      throw_error(ErrorCode::kDataLoss,
                  "{}:{} is not 'label name code' with label {} and a code of 2000 to 9999: {}",
                  path.string(), number, regions.size(), line);
    regions.push_back(static_cast<std::uint8_t>(lobe));
  }
  if (regions.size() < 2) throw_error(ErrorCode::kDataLoss, "{} names no region", path.string());
  return regions;
}

}  // namespace weft::apps
