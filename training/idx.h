// Reads IDX files, the format of MNIST and its kin: a big-endian header (two zero bytes, the code
// of the element type, the number of dimensions, a 32-bit size for each), then the elements. A file
// is not trusted: memory grows with the bytes that are really there, never with what a header
// claims.
#pragma once

#include <filesystem>

#include <sinter/runtime/tensor.h>

namespace sinter {

/// The elements of an IDX file of unsigned bytes with 1 to 4 dimensions, as a uint8 CPU tensor of
/// the header's shape. Gzip is unpacked on the way; it is told by the content, whatever the name.
/// `rank`: the number of dimensions that the caller expects, 0 for any.
///
/// Throws Error with the full path, what was expected and what was found, for: a missing or
/// unreadable file, a web page in place of the data, a header that is short, byte-swapped, not IDX,
/// of another element type or rank, with a dimension of 0 or sizes beyond 63 bits, a body too short
/// or too long, and a gzip file that is cut short, damaged (CRC) or followed by something else.
Tensor read_idx(const std::filesystem::path& file, int rank = 0);

}  // namespace sinter
