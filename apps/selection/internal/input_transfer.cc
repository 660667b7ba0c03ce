#include "apps/selection/internal/input_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/selection/shard_owners.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/sha256.h"
#include "core/codec/bytes.h"
#include "core/spill/input_file.h"

namespace weft::apps {
namespace {

/// Block of rows: part of the input u32, offset in the file u64, the file's size u64, bytes. The
/// last block of a rank has kDigest for a part, and the digest of all other blocks' bytes.
struct RowsBlock {
  static constexpr std::uint32_t kDigest = ~std::uint32_t{0};
  static constexpr std::size_t kHeaderBytes = 20;

  std::uint32_t part = kDigest;
  std::uint64_t offset = 0, file_size = 0;
  std::span<const std::byte> bytes;

  void write(ByteWriter& writer) const {
    writer.write(part);
    writer.write(offset);
    writer.write(file_size);
    writer.write_bytes(bytes);
  }
  static RowsBlock read(std::span<const std::byte> block) {
    ByteReader reader(block);
    RowsBlock rows;
    rows.part = reader.read<std::uint32_t>();
    rows.offset = reader.read<std::uint64_t>();
    rows.file_size = reader.read<std::uint64_t>();
    rows.bytes = reader.read_bytes(reader.remaining());
    return rows;
  }
};

std::string digest_after(const std::string& digest, std::span<const std::byte> bytes) {
  const std::string both = digest + sha256(bytes);
  return sha256(std::as_bytes(std::span(both)));
}

/// Partial copies of files, whose bytes arrive in any order.
class InputCopies final {
 public:
  explicit InputCopies(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::error_code problem;
    std::filesystem::remove_all(folder_, problem);
    if (problem)
      throw_error(ErrorCode::kUnavailable, "cannot remove {}: {}; give another `scratch`",
                  folder_.string(), problem.message());
    make_folders(folder_, "give another `scratch`");
  }
  void write(const std::string& name, const RowsBlock& rows) {
    auto [at, is_new] = files_.try_emplace(name);
    if (is_new) at->second.open(folder_ / name, std::ios::binary);
    at->second.seekp(static_cast<std::streamoff>(rows.offset));
    at->second.write(reinterpret_cast<const char*>(rows.bytes.data()),
                     static_cast<std::streamsize>(rows.bytes.size()));
    sizes_[name] = rows.file_size;
    taken_ += rows.bytes.size();
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

/// Bytes of a file, from `begin` to before `end`.
struct FileRange {
  std::uint64_t begin = 0, end = 0;
};

/// Returns what a rank needs of a file: the header, and the rows of its shards or all rows.
std::vector<FileRange> ranges_of(const NpyFile& rows, const FetchRequest& request,
                                 std::uint32_t rank, std::uint32_t ranks) {
  std::uint64_t first = 0, past = rows.rows();
  if (!request.all_rows) {
    const ShardOwners owners{{rows.rows(), static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
                                               request.shards, 1, rows.rows()))},
                             ranks};
    first = owners.layout.first_of(owners.first_shard_of(rank));
    past = owners.layout.first_of(owners.first_shard_of(rank + 1));
  }
  return {{0, rows.offset_of(0)}, {rows.offset_of(first), rows.offset_of(past)}};
}

}  // namespace

std::vector<GraphInputFile> GraphInput::parts() const {
  using Elements = NpyFile::Elements;
  return {{"vectors", has_neighbours() ? "" : vectors, Elements::kFloats},
          {"utilities", utilities, Elements::kFloats},
          {"neighbours", neighbours, Elements::kIntegers},
          {"similarities", similarities, Elements::kFloats}};
}

std::filesystem::path InputTransfer::folder(const std::filesystem::path& scratch) const {
  return scratch / fmt::format("input-{:05}", port_.rank());
}

std::filesystem::path InputTransfer::copies(const std::filesystem::path& scratch) const {
  return has_copies_ ? folder(scratch) : std::filesystem::path();
}

void InputTransfer::remove_copies(const std::filesystem::path& scratch) const {
  std::error_code ignored;
  std::filesystem::remove_all(folder(scratch), ignored);
}

InputStatus InputTransfer::inspect(const GraphInput& input) {
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

actors::task<std::uint64_t> InputTransfer::fetch(FetchRequest request) {
  const std::vector<GraphInputFile> parts = request.input.parts();
  has_copies_ = std::ranges::binary_search(request.lacking, port_.rank());
  std::optional<InputCopies> copies;
  if (has_copies_) copies.emplace(folder(request.scratch));
  std::string digest, expected;
  mesh::ActorExchange exchange(
      port_, {.number = request.exchange, .budget = request.exchange_budget},
      [&](const transfer::ReceivedBlock& block) {
        const RowsBlock rows = RowsBlock::read(block.bytes());
        if (rows.part == RowsBlock::kDigest) {
          expected.assign(reinterpret_cast<const char*>(rows.bytes.data()), rows.bytes.size());
          return;
        }
        digest = digest_after(digest, rows.bytes);
        copies.value().write(parts.at(rows.part).name, rows);
      });
  if (port_.rank() == request.holder)
    for (const std::uint32_t rank : request.lacking) co_await send_rows(request, rank, exchange);
  co_await exchange.finish();
  if (!copies) co_return 0;
  if (digest != expected)
    throw_error(ErrorCode::kDataLoss,
                "input rows from worker {} arrived damaged; start again. If it happens again, "
                "check memory and network of both hosts",
                request.holder);
  co_return copies->finish();
}

actors::task<> InputTransfer::send_rows(const FetchRequest& request, std::uint32_t rank,
                                        mesh::ActorExchange& exchange) const {
  const std::vector<GraphInputFile> parts = request.input.parts();
  const std::size_t most = exchange.block_bytes() - RowsBlock::kHeaderBytes;
  std::string digest;
  std::vector<std::byte> bytes;
  ByteWriter block;
  for (std::uint32_t part = 0; part < parts.size(); ++part) {
    if (parts[part].path.empty()) continue;
    const NpyFile rows(parts[part].path, parts[part].elements);
    const InputFile file(parts[part].path);
    for (const FileRange& range : ranges_of(rows, request, rank, port_.num_ranks())) {
      for (std::uint64_t offset = range.begin; offset < range.end; offset += bytes.size()) {
        bytes.resize(std::min<std::uint64_t>(most, range.end - offset));
        if (!file.read(offset, bytes))
          throw_error(ErrorCode::kDataLoss, "{} ends early; it was changed meanwhile: start again",
                      parts[part].path);
        digest = digest_after(digest, bytes);
        block.clear();
        RowsBlock{part, offset, rows.bytes(), bytes}.write(block);
        co_await exchange.send_block(rank, block.bytes());
      }
    }
  }
  block.clear();
  RowsBlock{RowsBlock::kDigest, 0, 0, std::as_bytes(std::span(digest))}.write(block);
  co_await exchange.send_block(rank, block.bytes());
}

}  // namespace weft::apps
