#include "core/codec/error_codec.h"

namespace weft {

void codec<Error>::write(ByteWriter& writer, const Error& error) {
  writer.write(static_cast<std::uint8_t>(error.code()));
  codec<std::string>::write(writer, error.message());
  codec<std::string>::write(writer, error.where());
  codec<std::string>::write(writer, error.node());
  codec<std::string>::write(writer, error.actor());
}

Error codec<Error>::read(ByteReader& reader) {
  const auto code = reader.read<std::uint8_t>();
  if (!is_error_code(code)) reader.fail("an error code that does not exist");
  auto message = codec<std::string>::read(reader);
  auto where = codec<std::string>::read(reader);
  auto node = codec<std::string>::read(reader);
  auto actor = codec<std::string>::read(reader);
  return Error(static_cast<ErrorCode>(code), std::move(message))
      .at(std::move(where))
      .from(std::move(node), std::move(actor));
}

}  // namespace weft
