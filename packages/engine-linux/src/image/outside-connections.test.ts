import { WireType } from '@bufbuild/protobuf/wire'
import { expect, test } from 'vitest'
import { getUint, type Message } from './message.ts'
import { leadsOutside, parkSocket, withoutUnsent } from './outside-connections.ts'

const numbers = (fields: Readonly<Record<number, number>>): Message =>
  Object.entries(fields).map(([no, value]) => ({
    no: Number(no),
    type: WireType.Varint,
    value: BigInt(value),
  }))
const TCP = 6
const UDP = 17
const socket = (state: number, { protocol = TCP, port = 80, address = [192, 0, 2, 1] } = {}): Message =>
  numbers({ 5: protocol, 6: state, 8: port, 12: new Uint32Array(Uint8Array.from(address).buffer)[0] ?? 0 })

test('connections to the outside are distinguished from all other sockets', () => {
  expect(leadsOutside(socket(1))).toBe(true)
  expect(leadsOutside(socket(1, { address: [127, 0, 0, 1] }))).toBe(false)
  expect(leadsOutside(socket(1, { protocol: UDP }))).toBe(false)
  expect(leadsOutside(socket(10))).toBe(false)
  expect(leadsOutside(socket(7))).toBe(false)
  expect(leadsOutside(socket(1, { port: 0 }))).toBe(false)
})

test.each([
  ['established', 1, 1],
  ['FIN_WAIT1', 4, 5],
  ['FIN_WAIT2', 5, 5],
  ['CLOSE_WAIT', 8, 8],
  ['LAST_ACK', 9, 8],
  ['CLOSING', 11, 8],
])('one that is %s stays connected, with nothing left to do', (_name, before, after) => {
  const each = socket(before)
  expect(parkSocket(each)).toBe(true)
  expect({ state: getUint(each, 6), port: getUint(each, 8) }).toEqual({ state: BigInt(after), port: 80n })
})

test('one that was not connected yet is closed', () => {
  const each = socket(2)
  expect(parkSocket(each)).toBe(false)
  expect({ state: getUint(each, 6), port: getUint(each, 8) }).toEqual({ state: 7n, port: 0n })
})

test('what was received stays, what was to be sent goes', () => {
  const message = numbers({ 1: 3, 2: 100, 3: 4, 4: 200, 12: 2 })
  const parked = withoutUnsent({ message, trailing: Buffer.from('inaouta') })
  expect(Buffer.from(parked.trailing).toString()).toBe('ina')
  expect(parked.message).toEqual(numbers({ 1: 3, 2: 100, 3: 0, 4: 200, 12: 0 }))
})
