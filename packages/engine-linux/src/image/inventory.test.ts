import { mkdtempSync, rmSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { plainRecord, writeImage } from './image-file.ts'
import { adoptUserNamespace, readInventory, readRootPid } from './inventory.ts'
import { findUint, getMessage, type Message, setMessage, setUint } from './message.ts'

const directory = mkdtempSync(join(tmpdir(), 'dormouse-inventory-'))
afterAll(() => rmSync(directory, { recursive: true }))

const COMMON = new Uint8Array(Buffer.from('1943565400000000', 'hex'))
const INVENTORY = new Uint8Array(Buffer.from('16313158', 'hex'))

function message(fields: Record<number, bigint>): Message {
  const fresh: Message = []
  for (const [no, value] of Object.entries(fields)) setUint(fresh, Number(no), value)
  return fresh
}

async function writeDump(name: string, version: bigint): Promise<string> {
  const path = join(directory, name)
  await mkdir(path)
  const inventory = message({ 1: version, 2: 1n })
  setMessage(inventory, 3, message({ 1: 1n, 10: 7n, 12: 5n }))
  await writeImage(join(path, 'inventory.img'), { head: INVENTORY, records: [plainRecord(inventory)] })
  const tree = [message({ 1: 3n, 2: 2n }), message({ 1: 2n, 2: 0n })]
  await writeImage(join(path, 'pstree.img'), { head: COMMON, records: tree.map(plainRecord) })
  const ids = message({ 1: 2n, 10: 9n })
  await writeImage(join(path, 'ids-2.img'), { head: COMMON, records: [plainRecord(ids)] })
  return path
}

it('adoptUserNamespace makes the namespace of the root task that of restore', async () => {
  const dump = await writeDump('good', 2n)
  const inventory = await readInventory(dump)
  expect(await readRootPid(dump)).toBe(2n)
  await adoptUserNamespace(inventory, dump)
  const rootIds = getMessage(inventory.records[0]!.message, 3)
  expect([1, 10, 12].map((no) => findUint(rootIds, no))).toEqual([1n, 9n, 5n])
})

it('readInventory refuses images of another version', async () => {
  const dump = await writeDump('other', 3n)
  await expect(readInventory(dump)).rejects.toMatchObject({
    code: 'host_unsupported',
    message: expect.stringContaining('version 3'),
  })
})
