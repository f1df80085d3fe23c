/** Writes the few DER elements (X.690) that a certificate consists of. Reads nothing. */

const INTEGER = 0x02
const BIT_STRING = 0x03
const OCTET_STRING = 0x04
const OBJECT_IDENTIFIER = 0x06
const UTF8_STRING = 0x0c
const UTC_TIME = 0x17
const GENERALIZED_TIME = 0x18
const SEQUENCE = 0x30
const SET = 0x31

export const TRUE = element(0x01, Buffer.of(0xff))

export function sequence(...parts: readonly Buffer[]): Buffer {
  return element(SEQUENCE, Buffer.concat(parts))
}

export function set(...parts: readonly Buffer[]): Buffer {
  return element(SET, Buffer.concat(parts))
}

/** Encodes a non-negative number, given as bytes. */
export function integer(bytes: Uint8Array): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0)
  const significant = first === -1 ? Buffer.of(0) : Buffer.from(bytes.subarray(first))
  // The highest bit is the sign.
  const isSigned = (significant[0] ?? 0) >= 0x80
  return element(INTEGER, isSigned ? Buffer.concat([Buffer.of(0), significant]) : significant)
}

export function bitString(bytes: Uint8Array, unusedBits = 0): Buffer {
  return element(BIT_STRING, Buffer.concat([Buffer.of(unusedBits), bytes]))
}

export function octetString(bytes: Uint8Array): Buffer {
  return element(OCTET_STRING, bytes)
}

export function utf8String(text: string): Buffer {
  return element(UTF8_STRING, Buffer.from(text))
}

export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  return element(OBJECT_IDENTIFIER, Buffer.from([first * 40 + second, ...rest].flatMap(base128)))
}

/** To the second. RFC 5280 requires the short form before 2050. */
export function time(at: Date): Buffer {
  const digits = at.toISOString().replace(/\.\d+/, '').replace(/[-:T]/g, '')
  const isShort = at.getUTCFullYear() < 2050
  return element(isShort ? UTC_TIME : GENERALIZED_TIME, Buffer.from(isShort ? digits.slice(2) : digits))
}

/** `[number]`: `content` is a value, or whole elements when constructed. */
export function context(
  number: number,
  content: Uint8Array,
  { isConstructed }: { isConstructed: boolean },
): Buffer {
  return element((isConstructed ? 0xa0 : 0x80) | number, content)
}

function element(tag: number, content: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of(tag), length(content.length), content])
}

function length(bytes: number): Buffer {
  if (bytes < 0x80) return Buffer.of(bytes)
  const digits: number[] = []
  for (let rest = bytes; rest > 0; rest = Math.floor(rest / 256)) digits.unshift(rest % 256)
  return Buffer.of(0x80 | digits.length, ...digits)
}

function base128(value: number): number[] {
  const digits = [value % 128]
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    digits.unshift(0x80 | (rest % 128))
  }
  return digits
}
