import { WireType } from '@bufbuild/protobuf/wire'
import { describe, expect, it } from 'vitest'
import {
  decodeMessage,
  encodeMessage,
  findText,
  findUint,
  getUint,
  type Message,
  setBytes,
  setUint,
} from './message.ts'

const bytes = (hex: string) => new Uint8Array(Buffer.from(hex.replaceAll(' ', ''), 'hex'))

describe('decodeMessage and encodeMessage', () => {
  it.each([
    ['a number of 64 bits', '08 ffffffffffffffffff01'],
    ['a negative number, as protobuf-c writes it', '38 ffffffffffffffffff01'],
    ['fixed numbers of 32 and 64 bits', '0d 01020304 11 0102030405060708'],
    ['fields in no order, repeated and unknown', '7a 02 6869 08 00 7a 00 08 01'],
    ['a field number beyond a byte', 'fa01 03 616263'],
    ['nothing', ''],
  ])('keep %s', (_, hex) => {
    const original = bytes(hex)
    expect(encodeMessage(decodeMessage(original))).toEqual(original)
  })

  it('refuse groups, which CRIU does not write', () => {
    expect(() => decodeMessage(bytes('0b 0c'))).toThrow('wire type 3')
  })

  it('refuse a message that is cut off', () => {
    expect(() => decodeMessage(bytes('7a 05 6869'))).toThrow()
  })
})

describe('setting fields', () => {
  it('replaces in place and keeps the neighbours', () => {
    const message = decodeMessage(bytes('08 01 10 02 18 03'))
    setUint(message, 2, 1n << 63n)
    expect(message.map(({ no }) => no)).toEqual([1, 2, 3])
    expect(getUint(decodeMessage(encodeMessage(message)), 2)).toBe(1n << 63n)
  })

  it('inserts a new field in the order of numbers', () => {
    const message: Message = [
      { no: 1, type: WireType.Varint, value: 1n },
      { no: 5, type: WireType.Varint, value: 5n },
    ]
    setBytes(message, 3, Buffer.from('three'))
    setUint(message, 9, 9n)
    expect(message.map(({ no }) => no)).toEqual([1, 3, 5, 9])
    expect(findText(message, 3)).toBe('three')
  })
})

it('findUint is undefined and getUint throws when a field is missing', () => {
  expect(findUint([], 4)).toBeUndefined()
  expect(() => getUint([], 4)).toThrow('field 4')
})
