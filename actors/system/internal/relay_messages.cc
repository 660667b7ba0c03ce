#include "actors/system/internal/relay_messages.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

namespace weft::actors {

namespace {
constexpr std::string_view kStreamPrefix = "stream ";
}  // namespace

Error stream_ended(std::uint64_t stream) {
  return Error(ErrorCode::kUnavailable,
               "the connection to the caller was lost, or the caller was forgotten among many; the "
               "call was not started")
      .at(fmt::format("{}{}", kStreamPrefix, stream));
}

std::optional<std::uint64_t> ended_stream(const Error& error) {
  const std::string_view where = error.where();
  if (error.code() != ErrorCode::kUnavailable || !where.starts_with(kStreamPrefix))
    return std::nullopt;
  std::uint64_t stream = 0;
  const auto parsed =
      std::from_chars(where.data() + kStreamPrefix.size(), where.data() + where.size(), stream);
  if (parsed.ec != std::errc() || parsed.ptr != where.data() + where.size()) return std::nullopt;
  return stream;
}

std::vector<std::byte> encode_results(const RelayResults& results) {
  std::size_t bytes = codec<RelayResults>::kMinBytes;
  for (const RelayedResult& result : results.results)
    bytes += codec<RelayedResult>::kMinBytes + result.value.size() + sizeof(ProcessId);
  for (const RelayedPart& part : results.parts)
    bytes += codec<RelayedPart>::kMinBytes + part.value.size() +
             part.ids.size() * sizeof(part.ids.front());
  ByteWriter writer(bytes);
  write_value(writer, results);
  return std::move(writer).take();
}

std::vector<std::byte> encode_chunk(std::uint64_t key, std::span<const std::byte> bytes) {
  ByteWriter writer(sizeof(key) + bytes.size());
  writer.write(key);
  writer.write_bytes(bytes);
  return std::move(writer).take();
}

RelayChunk decode_chunk(std::span<const std::byte> message) {
  ByteReader reader(message);
  const auto key = reader.read<std::uint64_t>();
  return {key, reader.read_bytes(reader.remaining())};
}

}  // namespace weft::actors
