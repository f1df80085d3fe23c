/** A symbol of a shared library. */
export interface ElfSymbol {
  /** Relative to the address where the library is mapped. */
  readonly offset: bigint
  readonly sizeBytes: bigint
}

const ELF64_LITTLE_ENDIAN = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1])
const PT_LOAD = 1
const SHT_DYNSYM = 11

interface Section {
  readonly type: number
  readonly offset: number
  readonly sizeBytes: number
  readonly link: number
  readonly entryBytes: number
}

/** Finds a dynamic symbol of a 64-bit little-endian library by name. */
export function findElfSymbol(elf: Buffer, name: string): ElfSymbol | undefined {
  if (!elf.subarray(0, 6).equals(ELF64_LITTLE_ENDIAN)) throw new Error('not a 64-bit little-endian ELF file')
  const sections = readSections(elf)
  const symbols = sections.find(({ type }) => type === SHT_DYNSYM)
  const strings = symbols && sections[symbols.link]
  if (symbols === undefined || strings === undefined || symbols.entryBytes === 0) return undefined
  for (let at = symbols.offset; at < symbols.offset + symbols.sizeBytes; at += symbols.entryBytes) {
    const nameStart = strings.offset + elf.readUInt32LE(at)
    const nameEnd = elf.indexOf(0, nameStart)
    if (elf.toString('latin1', nameStart, nameEnd) !== name) continue
    return { offset: elf.readBigUInt64LE(at + 8) - loadAddress(elf), sizeBytes: elf.readBigUInt64LE(at + 16) }
  }
  return undefined
}

function readSections(elf: Buffer): Section[] {
  const start = Number(elf.readBigUInt64LE(0x28))
  const headerBytes = elf.readUInt16LE(0x3a)
  return Array.from({ length: elf.readUInt16LE(0x3c) }, (_, index) => {
    const at = start + index * headerBytes
    return {
      type: elf.readUInt32LE(at + 4),
      offset: Number(elf.readBigUInt64LE(at + 0x18)),
      sizeBytes: Number(elf.readBigUInt64LE(at + 0x20)),
      link: elf.readUInt32LE(at + 0x28),
      entryBytes: Number(elf.readBigUInt64LE(at + 0x38)),
    }
  })
}

/** The address that the linker assigned to the first byte of the file; usually 0. */
function loadAddress(elf: Buffer): bigint {
  const start = Number(elf.readBigUInt64LE(0x20))
  const headerBytes = elf.readUInt16LE(0x36)
  for (let index = 0; index < elf.readUInt16LE(0x38); index++) {
    const at = start + index * headerBytes
    if (elf.readUInt32LE(at) !== PT_LOAD) continue
    return elf.readBigUInt64LE(at + 0x10) - elf.readBigUInt64LE(at + 8)
  }
  return 0n
}
