import { execFile, execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findJemalloc } from './find-jemalloc.ts'

const here = fileURLToPath(new URL('.', import.meta.url))
const native = fileURLToPath(new URL('../../packages/engine-linux/native', import.meta.url))
const COMPILE = ['-O1', '-g', '-std=gnu17', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror', '-pthread']
const PURGE_AT_ONCE = 'MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0'
const run = promisify(execFile)

let dir: string
let guard: string

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'dormouse-guard-'))
  guard = join(dir, 'bin/libdormouse-guard.so')
  await mkdir(join(dir, 'bin'))
  await mkdir(join(dir, 'root'))
  await run('make', ['-C', native, `BUILD=${join(dir, 'bin')}`, guard])
  for (const program of ['cases', 'hammer', 'allocator', 'device', 'pieces'])
    await run('gcc', [...COMPILE, '-o', join(dir, 'bin', program), join(here, `${program}.c`)])
})

afterAll(() => rm(dir, { recursive: true, force: true }))

interface Outcome {
  readonly exitCode: number | string
  readonly stderr: string
}
const PASSED: Outcome = { exitCode: 0, stderr: '' }

interface Program {
  readonly program: string
  readonly preload?: readonly string[]
  readonly environment?: readonly string[]
}

/** Runs a program where /.dormouse/memory exists. Exit code 1 is a check that failed, 2 a set-up that did. */
async function outcomeOf({ program, preload = [], environment = [] }: Program): Promise<Outcome> {
  const [name = '', ...args] = program.split(' ')
  const env = ['env', `LD_PRELOAD=${preload.join(':')}`, ...environment]
  const argv = ['-m', 'sh', join(here, 'restored-root.sh'), dir, ...env, join(dir, 'bin', name), ...args]
  try {
    const { stderr } = await run('unshare', argv)
    return { exitCode: 0, stderr }
  } catch (error) {
    const { code, stderr, signal } = error as { code: number; stderr: string; signal: string }
    return { exitCode: code ?? signal, stderr }
  }
}

// What would break without the guard. Each runs once more without it, and has to fail at a check there.
const differs = {
  dontneed_reads_zeros: 'MADV_DONTNEED leaves zeros and errno alone',
  dontneed_by_number_reads_zeros: 'MADV_DONTNEED through syscall() leaves zeros',
  free_reads_no_file_byte: 'MADV_FREE succeeds and shows old bytes or zeros',
  part_of_a_range: 'a discarded part leaves its neighbours as they are',
  mixed_range_dontneed: 'MADV_DONTNEED continues behind holes and files, and reports the hole',
  mixed_range_free: 'MADV_FREE stops at a file, with what lies before it done',
  protection_is_kept: 'each part keeps its protection',
  moved_memory: 'memory that mremap moved is discarded too',
  locked_memory_on_request: 'MADV_DONTNEED_LOCKED leaves locked zeros',
  guard_pages: 'guard pages that are removed again read zeros',
  no_descriptor_left: 'without a free descriptor a discard fails and keeps the bytes',
  no_descriptor_is_kept: 'no descriptor stays open',
  too_many_mappings: 'a process at its limit of mappings gets zeros all the same',
  first_thread_gone: 'a process whose first thread has ended discards',
  after_fork: 'a child discards its own copy only',
  growth_into_the_hole: 'growth reads zeros and does not fault',
  growth_after_shrinking: 'growth after a shrink shows no old byte and stays one mapping',
  growth_of_read_only_memory: 'growth of read-only memory shows no old byte',
  moved_away_without_unmapping: 'MREMAP_DONTUNMAP leaves zeros behind',
  table_is_in_the_image: 'the table’s pages are private from the start',
}
// Where the guard must not be noticed at all.
const stays = {
  locked_memory: 'locked memory is refused as the kernel refuses it',
  stale_table: 'other mappings where the table points are left alone',
  bad_arguments: 'bad arguments and other advice go to the kernel as they are',
}

describe('guard', () => {
  test.each(Object.entries(differs))('%s: %s', async (program) => {
    expect(await outcomeOf({ program: `cases ${program}`, preload: [guard] })).toEqual(PASSED)
    const without = await outcomeOf({ program: `cases ${program}` })
    expect(without).toEqual({ exitCode: 1, stderr: expect.stringContaining('cases.c') })
  })

  test.each(Object.entries(stays))('%s: %s', async (program) => {
    expect(await outcomeOf({ program: `cases ${program}`, preload: [guard] })).toEqual(PASSED)
    expect(await outcomeOf({ program: `cases ${program}` })).toEqual(PASSED)
  })

  test.each(Object.keys({ ...differs, ...stays }))(
    '%s: also on a kernel without PROCMAP_QUERY',
    async (name) => {
      const program = `cases ${name} without-procmap-query`
      expect(await outcomeOf({ program, preload: [guard] })).toEqual(PASSED)
    },
  )

  test('threads, a signal handler and forked children discard at the same time', async () => {
    expect(await outcomeOf({ program: 'hammer', preload: [guard] })).toEqual(PASSED)
    expect((await outcomeOf({ program: 'hammer' })).exitCode).toBe(1)
  })

  test('jemalloc purges restored arenas and callocs zeros', async () => {
    const jemalloc = findJemalloc()
    const environment = [PURGE_AT_ONCE]
    for (const preload of [
      [guard, jemalloc],
      [jemalloc, guard],
    ])
      expect(await outcomeOf({ program: 'allocator', preload, environment })).toEqual(PASSED)
    const without = await outcomeOf({ program: 'allocator', preload: [jemalloc], environment })
    expect(without).toEqual({
      exitCode: 1,
      stderr: expect.stringContaining('all(blocks[i], BLOCK_BYTES, 0)'),
    })
  })

  test.each(['grows_in_place', 'grows_and_moves', 'grows_at_a_fixed_place', 'a_failed_move_changes_nothing'])(
    'memory that was discarded in parts: %s',
    async (name) => {
      for (const kernel of ['', ' without-procmap-query'])
        expect(await outcomeOf({ program: `pieces ${name}${kernel}`, preload: [guard] })).toEqual(PASSED)
      expect(await outcomeOf({ program: `pieces ${name}` })).toMatchObject({ exitCode: 1 })
    },
  )

  test('memory that never was one mapping does not move as one', async () => {
    const program = 'pieces what_was_never_one_mapping'
    expect(await outcomeOf({ program, preload: [guard] })).toEqual(PASSED)
    expect(await outcomeOf({ program })).toEqual(PASSED)
  })

  test.each(['one_number', 'forgotten_any_time'])('device numbers of the root: %s', async (name) => {
    expect(await outcomeOf({ program: `device ${name}`, preload: [guard] })).toEqual(PASSED)
    const without = await outcomeOf({ program: `device ${name}` })
    expect(without).toEqual({ exitCode: 1, stderr: expect.stringContaining('device.c') })
  })

  test('device numbers of the root: errors are the kernel’s', async () => {
    expect(await outcomeOf({ program: 'device errors', preload: [guard] })).toEqual(PASSED)
    expect(await outcomeOf({ program: 'device errors' })).toEqual(PASSED)
  })

  test('the library needs no libc and exports nothing else', () => {
    const symbols = execFileSync('nm', ['-D', '--format=posix', guard], { encoding: 'utf8' })
    const named = symbols.split('\n').flatMap((line) => line.match(/^(\S+ \w)\b/)?.[1] ?? [])
    const files = ['stat', 'lstat', 'fstat', 'fstatat', '__xstat', '__lxstat', '__fxstat', '__fxstatat']
    const machine = [
      'get_avphys_pages',
      'get_nprocs',
      'get_nprocs_conf',
      'get_phys_pages',
      'sysconf',
      'sysinfo',
    ]
    const disks = ['statfs', 'fstatfs', 'statvfs', 'fstatvfs']
    const replaced = [
      ...[...files, ...disks].flatMap((name) => [name, `${name}64`]),
      ...machine,
      ...['madvise', 'mremap', 'pthread_getaffinity_np', 'sched_getaffinity', 'statx', 'syscall'],
    ]
    const fromLibc = ['__errno_location', '__sysconf', 'dlsym']
    expect(named.sort()).toEqual(
      [
        ...replaced.map((name) => `${name} T`),
        ...fromLibc.map((name) => `${name} w`),
        'dormouse_guard_call B',
        'dormouse_guard_enter T',
        'dormouse_guard_table D',
      ].sort(),
    )
    expect(execFileSync('readelf', ['-d', guard], { encoding: 'utf8' })).not.toContain('NEEDED')
  })
})
