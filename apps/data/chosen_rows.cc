#include "apps/data/chosen_rows.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/check.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/philox.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr const char* kRemedy = "make the selection again";

struct SubsetDescription {
  std::uint64_t count = 0, of = 0;
  std::string data_digest;
};

SubsetDescription read_description(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_error(ErrorCode::kNotFound, "cannot read {}: {}", path.string(), kRemedy);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    return {json.at("count").get<std::uint64_t>(), json.at("of").get<std::uint64_t>(),
            json.at("data_digest").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    throw_error(ErrorCode::kDataLoss,
                "{} is damaged: it needs \"count\", \"of\" and \"data_digest\"; {}", path.string(),
                kRemedy);
  }
}

}  // namespace

ChosenRows::ChosenRows(const fs::path& folder, const std::string& data_digest, std::size_t of,
                       const std::string& what)
    : file_(rows_in(folder)) {
  const SubsetDescription said = read_description(description_in(folder));
  if (said.data_digest != data_digest || said.of != of)
    throw_error(ErrorCode::kIncompatible,
                "the rows in {} were chosen from other data ({} rows, digest {}...) than {} ({} "
                "rows, digest {}...): choose from these data, or train on those, with the same "
                "`data:` section",
                folder.string(), said.of, said.data_digest.substr(0, 12), what, of,
                data_digest.substr(0, 12));
  const fs::path path = rows_in(folder);
  if (file_.bytes().size() != 4 * said.count || said.count == 0)
    throw_error(ErrorCode::kDataLoss, "{} has {} bytes, not four for each of {} rows; {}",
                path.string(), file_.bytes().size(), said.count, kRemedy);
  for (std::size_t i = 0; i < size(); ++i) {
    if ((*this)[i] >= of || (i > 0 && (*this)[i] <= (*this)[i - 1]))
      throw_error(ErrorCode::kDataLoss,
                  "{} is damaged: row {} at place {} is not below {}, or does not ascend; {}",
                  path.string(), (*this)[i], i, of, kRemedy);
  }
}

void ChosenRows::write(const fs::path& folder, std::span<const std::uint32_t> rows, std::size_t of,
                       const std::string& data_digest) {
  make_folders(folder, "name another folder for the chosen rows");
  std::string bytes;
  for (const std::uint32_t row : rows)
    for (const int shift : {0, 8, 16, 24}) bytes += static_cast<char>(row >> shift & 0xff);
  write_durably(rows_in(folder), bytes);
  write_description(folder, rows.size(), of, data_digest);
}

void ChosenRows::write_description(const fs::path& folder, std::size_t count, std::size_t of,
                                   const std::string& data_digest) {
  const nlohmann::ordered_json json = {{"count", count}, {"of", of}, {"data_digest", data_digest}};
  write_durably(description_in(folder), json.dump(2) + "\n");
}

std::uint32_t ChosenRows::operator[](std::size_t i) const {
  WEFT_CHECK(i < size(), "row {} of {}", i, size());
  std::uint32_t row = 0;
  std::memcpy(&row, file_.bytes().data() + 4 * i, 4);  // the file and this machine are
                                                       // little-endian
  return row;
}

std::string ChosenRows::sha256() const { return weft::sha256(file_.bytes()); }

std::vector<std::uint32_t> random_rows(std::size_t of, std::size_t count, std::uint64_t seed) {
  WEFT_CHECK(count <= of && of <= std::numeric_limits<std::uint32_t>::max(), "{} of {}", count, of);
  const std::uint64_t key = seed ^ fnv1a("random rows", 11);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> hashed;
  for (std::size_t row = 0; row < of; ++row) {
    const auto words = philox(key, row);
    hashed.emplace_back((std::uint64_t{words[0]} << 32) | words[1], row);
  }
  std::ranges::nth_element(hashed, hashed.begin() + count);
  std::vector<std::uint32_t> rows;
  for (std::size_t i = 0; i < count; ++i) rows.push_back(hashed[i].second);
  std::ranges::sort(rows);
  return rows;
}

}  // namespace weft::apps
