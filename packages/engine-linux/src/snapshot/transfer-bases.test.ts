import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BurrowId, SandboxId, SnapshotId } from '@dormouse/contracts'
import type { ArrivingPart, FetchedBases, PortablePart } from '@dormouse/engine'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newRecord, writeRecord } from '../burrow/burrow-record.ts'
import { guestToolsDir, listGuestTools } from '../guest-tools.ts'
import { Layout } from '../host/layout.ts'
import { encodeManifest, type FilesManifest, SNAPSHOT_FORMAT_VERSION } from '../storage/manifest.ts'
import { SnapshotStore } from '../storage/snapshot-store.ts'
import type { VerifiedSnapshots } from '../storage/verify-snapshot.ts'
import { UID_BASE, UID_COUNT } from '../template/shifted-root.ts'
import { findBuild, getTemplateBuild, TEMPLATE_FORMAT_VERSION } from '../template/template-store.ts'
import { baseOfTemplate, baseOfTools } from './base-keys.ts'
import { fetchedBases } from './fetched-bases.ts'
import { baseTransfer } from './transfer-bases.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-bases-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

const HASH = '0123456789abcdef'
const TOOLS = 'fedcba9876543210'
const FIRST = { name: 'python', hash: HASH, builtAt: '2026-01-02T03:04:05.678Z' }
const SECOND = { ...FIRST, builtAt: '2026-02-03T04:05:06.789Z' }
const FIRST_HERE = `${HASH}.20260102030405678`
const SIZE_BYTES = 2 * 1024 ** 2

/** A host with a small build of its own. */
function makeHost(name: string, { builtAt }: { builtAt: string }): string {
  const dataDir = join(directory, name)
  const build = join(dataDir, 'templates/python', HASH)
  mkdirSync(join(build, 'rootfs/etc'), { recursive: true })
  writeFileSync(join(build, 'rootfs/etc/host'), name.padEnd(SIZE_BYTES))
  for (const path of ['rootfs', 'rootfs/etc', 'rootfs/etc/host'])
    chownSync(join(build, path), UID_BASE, UID_BASE)
  const manifest = {
    ...{ formatVersion: TEMPLATE_FORMAT_VERSION, name: 'python', hash: HASH, suite: 'trixie' },
    ...{ description: { name: 'python', suite: 'trixie' }, sizeBytes: SIZE_BYTES, createdAt: builtAt },
    ...{ uidBase: UID_BASE, uidCount: UID_COUNT },
  }
  writeFileSync(join(build, 'template.json'), JSON.stringify(manifest))
  const tools = join(dataDir, 'tools/guest', TOOLS, 'lib')
  mkdirSync(tools, { recursive: true })
  writeFileSync(join(tools, 'libdormouse-guard.so'), name)
  return dataDir
}

const hostOf = (build: { rootfs: string } | undefined) =>
  build && readFileSync(join(build.rootfs, 'etc/host'), 'utf8').trim()
const childrenOf = (path: string) => readdirSync(join(directory, path)).sort()

function arriving(part: PortablePart): ArrivingPart {
  if (part.kind !== 'archive') throw new Error('a base is one archive')
  return { kind: 'archive', key: part.key, content: () => part.read() as AsyncIterable<Uint8Array> }
}

async function send(key: string, from: string, to: string): Promise<void> {
  const part = await baseTransfer({ dataDir: from }).export(key)
  await baseTransfer({ dataDir: to }).import(key, arriving(part))
}

it('a build of another host is beside the own one of the same hash, and travels further from there', async () => {
  const [one, two] = [makeHost('one', FIRST), makeHost('two', SECOND)]
  const key = baseOfTemplate(FIRST)
  expect(await baseTransfer({ dataDir: two }).isHere(key)).toBe(false)
  await send(key, one, two)
  await send(key, one, two)
  expect(await baseTransfer({ dataDir: two }).isHere(key)).toBe(true)
  expect(childrenOf('two/templates/python')).toEqual([HASH, FIRST_HERE])
  expect(hostOf(await findBuild(two, FIRST))).toBe('one')
  expect(hostOf(await findBuild(two, SECOND))).toBe('two')
  expect(await getTemplateBuild(two, { name: 'python', hash: FIRST_HERE })).toMatchObject({
    hash: FIRST_HERE,
  })
  const three = join(directory, 'three')
  await send(key, two, three)
  expect(hostOf(await findBuild(three, FIRST))).toBe('one')
  expect(await findBuild(three, SECOND)).toBeUndefined()
})

it('guest tools of another host never take the place of own ones', async () => {
  const one = makeHost('one', FIRST)
  const two = join(directory, 'two')
  await send(baseOfTools(TOOLS), one, two)
  expect(await listGuestTools(two)).toEqual([TOOLS])
  expect(guestToolsDir(two, TOOLS)).toBe(join(two, 'tools/fetched', TOOLS))
  makeHost('two', SECOND)
  expect(guestToolsDir(two, TOOLS)).toBe(join(two, 'tools/guest', TOOLS))
  expect(await listGuestTools(two)).toEqual([TOOLS])
})

const BUILD = `templates/python/${HASH}`
const TAMPERED: [what: string, key: string, tamper: (dataDir: string) => void][] = [
  [
    'a file of root of the host',
    baseOfTemplate(FIRST),
    (at) => chownSync(join(at, BUILD, 'rootfs/etc/host'), 0, 0),
  ],
  [
    'a device',
    baseOfTemplate(FIRST),
    (at) => {
      const disk = join(at, BUILD, 'rootfs/disk')
      execFileSync('mknod', [disk, 'b', '8', '0'])
      chownSync(disk, UID_BASE, UID_BASE)
    },
  ],
  [
    'a link to a directory of the host for its root',
    baseOfTemplate(FIRST),
    (at) => {
      rmSync(join(at, BUILD, 'rootfs'), { recursive: true })
      symlinkSync('/etc', join(at, BUILD, 'rootfs'))
    },
  ],
  [
    'a link among the memory files of its snapshots',
    baseOfTemplate(FIRST),
    (at) => {
      mkdirSync(join(at, BUILD, 'snapshots', HASH, 'memory'), { recursive: true })
      symlinkSync('/etc/passwd', join(at, BUILD, 'snapshots', HASH, 'memory/pages'))
    },
  ],
  [
    'a guard that is a link to a file of the host',
    baseOfTools(TOOLS),
    (at) => {
      const guard = join(at, 'tools/guest', TOOLS, 'lib/libdormouse-guard.so')
      rmSync(guard)
      symlinkSync('/etc/passwd', guard)
    },
  ],
  [
    'tools that raise rights',
    baseOfTools(TOOLS),
    (at) => {
      const program = join(at, 'tools/guest', TOOLS, 'program')
      writeFileSync(program, '')
      execFileSync('chmod', ['4755', program])
    },
  ],
]

it.each(TAMPERED)('a base with %s is refused, and nothing of it is left', async (_what, key, tamper) => {
  const [one, two] = [makeHost('one', FIRST), makeHost('two', SECOND)]
  rmSync(join(two, 'tools'), { recursive: true })
  mkdirSync(join(two, 'tools/fetched'), { recursive: true })
  tamper(one)
  await expect(send(key, one, two)).rejects.toMatchObject({ code: 'snapshot_unusable' })
  expect(childrenOf('two/templates/python')).toEqual([HASH])
  expect(childrenOf('two/tools/fetched')).toEqual([])
})

it('a base under the key of another one is refused', async () => {
  const [one, two] = [makeHost('one', FIRST), join(directory, 'two')]
  const part = arriving(await baseTransfer({ dataDir: one }).export(baseOfTemplate(FIRST)))
  const transfer = baseTransfer({ dataDir: two })
  for (const key of [baseOfTemplate(SECOND), baseOfTemplate({ ...FIRST, hash: 'abc' }), baseOfTools(TOOLS)])
    await expect(transfer.import(key, part)).rejects.toMatchObject({ code: 'snapshot_unusable' })
  for (const key of ['template-../../x-0-1', 'tools-../..', 'other'])
    await expect(transfer.import(key, part)).rejects.toMatchObject({ code: 'snapshot_unusable' })
})

it('a fetch that ends too early leaves nothing, and the next one removes what a killed server left', async () => {
  const [one, two] = [makeHost('one', FIRST), makeHost('two', SECOND)]
  const key = baseOfTemplate(FIRST)
  const part = arriving(await baseTransfer({ dataDir: one }).export(key))
  if (part.kind !== 'archive') throw new Error('a base is one archive')
  const { content } = part
  async function* cut() {
    for await (const piece of content()) {
      yield piece.subarray(0, 1000)
      throw new Error('the depot is gone')
    }
  }
  const transfer = baseTransfer({ dataDir: two })
  await expect(transfer.import(key, { ...part, content: cut })).rejects.toThrow('the depot is gone')
  expect(childrenOf('two/templates/python')).toEqual([HASH])
  // Of a process that has ended: no process has started at that time.
  mkdirSync(join(directory, 'two/templates/python/.fetching-1-1-0123456789ab'))
  await send(key, one, two)
  expect(childrenOf('two/templates/python')).toEqual([HASH, FIRST_HERE])
})

it('a fetch onto a full disk says so and leaves nothing', async () => {
  const [one, two] = [makeHost('one', FIRST), join(directory, 'two')]
  mkdirSync(two)
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_BYTES / 2}`, 'dormouse-test', two])
  try {
    await expect(send(baseOfTemplate(FIRST), one, two)).rejects.toMatchObject({ code: 'no_space' })
    expect(readdirSync(dirname(join(two, BUILD)))).toEqual([])
  } finally {
    execFileSync('umount', [two])
  }
})

describe('what was fetched', () => {
  const key = baseOfTemplate(FIRST)
  const SNAPSHOT = 'sn-aaaaaaaaaaaaaaaa' as SnapshotId
  const BURROW = 'bw-aaaaaaaaaaaaaaaa' as BurrowId
  const limits = { memoryBytes: 512 * 1024 ** 2, cpus: 1, pids: 64 }
  let two: string
  let layout: Layout
  let fetched: FetchedBases
  beforeEach(async () => {
    const one = makeHost('one', FIRST)
    two = makeHost('two', SECOND)
    rmSync(join(two, 'tools'), { recursive: true })
    for (const base of [key, baseOfTools(TOOLS)]) await send(base, one, two)
    layout = new Layout(two, two)
    for (const path of [layout.snapshotsDir, layout.burrowsDir, layout.sparesDir]) mkdirSync(path)
    fetched = openFetched(two, two)
  })

  function openFetched(stateDir: string, dataDir: string): FetchedBases {
    const at = new Layout(stateDir, dataDir)
    const store = new SnapshotStore(at, {} as VerifiedSnapshots, async () => new Set())
    const found = fetchedBases({ dataDir, store, host: { layout: at } })
    if (found === undefined) throw new Error('other servers use them, too')
    return found
  }
  const unused = async () => (await fetched.unused()).map((base) => base.key).sort()

  it('goes when nothing needs it, and only then', async () => {
    expect(await unused()).toEqual([key, baseOfTools(TOOLS)])
    expect((await fetched.unused())[0]?.bytes).toBeGreaterThan(SIZE_BYTES)
    mkdirSync(layout.snapshot(SNAPSHOT).dir)
    const manifest: FilesManifest = {
      ...{ kind: 'files', formatVersion: SNAPSHOT_FORMAT_VERSION, id: SNAPSHOT, layers: [], volumes: [] },
      ...{ sandboxId: 'sb-aaaaaaaaaaaaaaaa' as SandboxId, createdAt: FIRST.builtAt, limits },
      ...{ template: { name: 'python', hash: FIRST_HERE }, bytes: { images: 0, memory: 0 } },
    }
    writeFileSync(layout.snapshot(SNAPSHOT).manifest, encodeManifest(manifest))
    expect(await unused()).toEqual([baseOfTools(TOOLS)])
    expect(await fetched.remove(key)).toBe(false)
    // One that cannot be read may need anything.
    writeFileSync(layout.snapshot(SNAPSHOT).manifest, '{')
    expect(await unused()).toEqual([])
    expect(await fetched.remove(baseOfTools(TOOLS))).toBe(false)
    rmSync(layout.snapshot(SNAPSHOT).dir, { recursive: true })
    const { dir, record, spareMark } = layout.burrow(BURROW)
    mkdirSync(dir)
    // It is being made.
    expect(await unused()).toEqual([])
    writeFileSync(spareMark, '')
    expect(await unused()).toHaveLength(2)
    rmSync(spareMark)
    await writeRecord(
      record,
      newRecord({
        ...{ id: BURROW, sandboxId: 'sb-aaaaaaaaaaaaaaaa' as SandboxId, tools: TOOLS, limits },
        ...{ template: 'python', templateHash: HASH, layers: [], volumes: [] },
      }),
    )
    expect(await unused()).toEqual([key])
    expect(await fetched.remove(key)).toBe(true)
    expect(await fetched.remove(baseOfTools(TOOLS))).toBe(false)
    expect(childrenOf('two/templates/python')).toEqual([HASH])
    expect(childrenOf('two/tools/fetched')).toEqual([TOOLS])
    expect(await fetched.remove(baseOfTemplate(SECOND))).toBe(false)
    expect(hostOf(await findBuild(two, SECOND))).toBe('two')
  })

  it('stays whole or goes when its removal is killed, and the next server removes the rest', async () => {
    const build = join(two, 'templates/python', FIRST_HERE, 'rootfs')
    for (let count = 0; count < 2_000; count += 1) writeFileSync(join(build, `file-${count}`), '')
    const copy = join(directory, 'copy')
    execFileSync('cp', ['-a', join(two, 'templates/python', FIRST_HERE), copy])
    const urlOf = (path: string) => JSON.stringify(new URL(`../../dist/${path}`, import.meta.url).href)
    const program = `
const { fetchedBases } = await import(${urlOf('snapshot/fetched-bases.js')})
const { SnapshotStore } = await import(${urlOf('storage/snapshot-store.js')})
const { Layout } = await import(${urlOf('host/layout.js')})
const [dataDir, key] = process.argv.slice(1)
const layout = new Layout(dataDir, dataDir)
const store = new SnapshotStore(layout, {}, async () => new Set())
process.stdout.write('ready')
await fetchedBases({ dataDir, store, host: { layout } }).remove(key)`
    const seen = new Set<boolean>()
    let pauseMs = 0
    for (let round = 0; round < 12; round += 1) {
      if (!(await baseTransfer({ dataDir: two }).isHere(key)))
        execFileSync('cp', ['-a', copy, join(two, 'templates/python', FIRST_HERE)])
      const child = spawn(process.execPath, ['--input-type=module', '-e', program, two, key])
      await once(child.stdout, 'data')
      await sleep(pauseMs)
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
      const isThere = childrenOf('two/templates/python').includes(FIRST_HERE)
      seen.add(isThere)
      // Close to the moment of the removal, however busy the machine is.
      pauseMs = isThere ? pauseMs * 2 + 2 : pauseMs / 2
      if (isThere) expect(readdirSync(build)).toHaveLength(2_001)
      await fetched.removeUnfinished()
      expect(childrenOf('two/templates/python')).toEqual(isThere ? [HASH, FIRST_HERE] : [HASH])
    }
    expect(seen).toEqual(new Set([true, false]))
  })

  it('stays where other servers have the same templates', () => {
    expect(() => openFetched(join(directory, 'state'), two)).toThrow('other servers')
  })
})
