// GraphWorker's transfer of input rows to workers whose hosts lack the input.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <span>
#include <utility>

#include "apps/selection/graph_worker.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/codec/bytes.h"
#include "core/spill/input_file.h"

namespace weft::apps {
namespace {

/// Block of rows: part of the input u32, offset in the file u64, the file's size u64, bytes. The
/// last block of a rank has kDigest for a part, and the digest of all other blocks' bytes.
constexpr std::uint32_t kDigest = ~std::uint32_t{0};
constexpr std::size_t kBeforeBytes = 20;

std::string digest_after(const std::string& digest, std::span<const std::byte> bytes) {
  const std::string both = digest + sha256(bytes);
  return sha256(std::as_bytes(std::span(both)));
}

/// Partial copies of files, whose bytes arrive in any order.
class Copies final {
 public:
  explicit Copies(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::error_code problem;
    std::filesystem::remove_all(folder_, problem);
    if (!problem) std::filesystem::create_directories(folder_, problem);
    if (problem)
      throw_error(ErrorCode::kUnavailable, "cannot make {}: {}; give another `scratch`",
                  folder_.string(), problem.message());
  }
  void write(const std::string& name, std::uint64_t offset, std::uint64_t size,
             std::span<const std::byte> bytes) {
    auto [at, is_new] = files_.try_emplace(name);
    if (is_new) at->second.open(folder_ / name, std::ios::binary);
    at->second.seekp(static_cast<std::streamoff>(offset));
    at->second.write(reinterpret_cast<const char*>(bytes.data()),
                     static_cast<std::streamsize>(bytes.size()));
    sizes_[name] = size;
    taken_ += bytes.size();
  }
  /// Extends the files to their full sizes. Returns the number of received bytes.
  std::uint64_t finish() {
    for (auto& [name, file] : files_) {
      file.close();
      if (!file)
        throw_error(ErrorCode::kResourceExhausted,
                    "cannot write {}: make room there, or give another `scratch`",
                    (folder_ / name).string());
      std::filesystem::resize_file(folder_ / name, sizes_.at(name));
    }
    return taken_;
  }

 private:
  const std::filesystem::path folder_;
  std::map<std::string, std::ofstream> files_;
  std::map<std::string, std::uint64_t> sizes_;
  std::uint64_t taken_ = 0;
};

}  // namespace

std::vector<GraphInputFile> GraphInput::parts() const {
  using Elements = NpyFile::Elements;
  return {{"vectors", has_neighbours() ? "" : vectors, Elements::kFloats},
          {"utilities", utilities, Elements::kFloats},
          {"neighbours", neighbours, Elements::kIntegers},
          {"similarities", similarities, Elements::kFloats}};
}

std::filesystem::path GraphWorker::copies(const std::string& scratch) const {
  return std::filesystem::path(scratch) / fmt::format("input-{:05}", port_.rank());
}

InputStatus GraphWorker::inspect_input(const GraphInput& input) {
  has_copies_ = false;
  InputStatus status;
  for (const GraphInputFile& part : input.parts()) {
    if (part.path.empty()) continue;
    try {
      const NpyFile file(part.path, part.elements);
      if (status.sizes.empty()) status.points = file.rows();
      status.sizes.push_back(file.bytes());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) throw;
      status.missing = error.message();
    }
  }
  return status;
}

actors::task<std::uint64_t> GraphWorker::fetch(FetchRequest request) {
  const std::vector<GraphInputFile> parts = request.input.parts();
  has_copies_ = std::ranges::binary_search(request.lacking, port_.rank());
  std::optional<Copies> copies;
  if (has_copies_) copies.emplace(this->copies(request.scratch));
  std::string digest, expected;
  mesh::ActorExchange exchange(
      port_, {.number = request.exchange, .budget = request.exchange_budget},
      [&](const transfer::ReceivedBlock& block) {
        ByteReader reader(block.bytes());
        const auto part = reader.read<std::uint32_t>();
        const auto offset = reader.read<std::uint64_t>();
        const auto size = reader.read<std::uint64_t>();
        const auto bytes = reader.read_bytes(reader.remaining());
        if (part == kDigest) {
          expected.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return;
        }
        digest = digest_after(digest, bytes);
        copies.value().write(parts.at(part).name, offset, size, bytes);
      });
  if (port_.rank() == request.holder) {
    const std::size_t most = exchange.block_bytes() - kBeforeBytes;
    std::vector<std::byte> bytes;
    ByteWriter record;
    const auto record_of = [&](std::uint32_t part, std::uint64_t offset, std::uint64_t size,
                               std::span<const std::byte> content) {
      record.clear();
      record.write(part);
      record.write(offset);
      record.write(size);
      record.write_bytes(content);
      return record.bytes();
    };
    for (const std::uint32_t rank : request.lacking) {
      std::string of_rank;
      for (std::uint32_t part = 0; part < parts.size(); ++part) {
        if (parts[part].path.empty()) continue;
        const NpyFile rows(parts[part].path, parts[part].elements);
        const InputFile file(parts[part].path);
        const ShardLayout layout{rows.rows(), static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
                                                  request.shards, 1, rows.rows()))};
        std::uint64_t first = 0, past = rows.rows();
        if (!request.all_rows) {
          // A rank's shards are adjacent.
          const std::uint64_t ranks = port_.num_ranks();
          const auto begin_of = [&](std::uint64_t of) {
            return layout.first_of(
                static_cast<std::uint32_t>((of * layout.shards + ranks - 1) / ranks));
          };
          first = begin_of(rank);
          past = begin_of(rank + 1);
        }
        // Sends the header, then the rows.
        for (const auto& [begin, end] : {std::pair(std::uint64_t{0}, rows.offset_of(0)),
                                         std::pair(rows.offset_of(first), rows.offset_of(past))}) {
          for (std::uint64_t offset = begin; offset < end; offset += bytes.size()) {
            bytes.resize(std::min<std::uint64_t>(most, end - offset));
            if (!file.read(offset, bytes))
              throw_error(ErrorCode::kDataLoss,
                          "{} ends early; it was changed meanwhile: start again", parts[part].path);
            of_rank = digest_after(of_rank, bytes);
            co_await exchange.send_block(rank, record_of(part, offset, rows.bytes(), bytes));
          }
        }
      }
      co_await exchange.send_block(rank,
                                   record_of(kDigest, 0, 0, std::as_bytes(std::span(of_rank))));
    }
  }
  co_await exchange.finish();
  if (!copies) co_return 0;
  if (digest != expected)
    throw_error(ErrorCode::kDataLoss,
                "input rows from worker {} arrived damaged; start again. If it happens again, "
                "check memory and network of both hosts",
                request.holder);
  co_return copies->finish();
}

}  // namespace weft::apps
