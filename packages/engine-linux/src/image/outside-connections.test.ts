import { WireType } from '@bufbuild/protobuf/wire'
import { expect, test } from 'vitest'
import { getUint, type Message } from './message.ts'
import { parkSocket } from './outside-connections.ts'
import { leadsOutside } from './tcp-socket.ts'

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
