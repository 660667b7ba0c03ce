#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "core/base/secret.h"

namespace weft {

/// Returns the SHA-256 as 64 lower-case hexadecimal digits.
std::string sha256(std::span<const std::byte> bytes);

/// Returns the SHA-256 of a file's content. Throws Error(kNotFound) if it cannot be read.
std::string sha256_file(const std::filesystem::path& path);

/// HMAC-SHA256 (RFC 2104): proof that the sender knows the key.
using Mac = std::array<std::byte, 32>;
Mac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);
/// Returns the HMAC of a label and parts, each preceded by its length, so that different lists of
/// parts never give the same bytes.
Mac hmac_sha256(const Secret& key, std::string_view label,
                std::initializer_list<std::span<const std::byte>> parts);

}  // namespace weft
