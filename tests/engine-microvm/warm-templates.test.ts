import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { SCRATCH } from '../../packages/engine-linux/src/template/scratch-template.ts'
import { MicrovmLayout } from '../../packages/engine-microvm/src/host/microvm-layout.ts'
import { makeLayer, writeLayout } from '../images/make-image.ts'
import { busybox, run } from '../images/test-images.ts'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'
import { testDataDir } from '../test-data-dir.ts'
import { BOOT_TIMEOUT_MS, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
const IS_WHOLE = process.env['DORMOUSE_TEST_LARGE'] === '1'
vi.setConfig({ testTimeout: BOOT_TIMEOUT_MS, hookTimeout: BOOT_TIMEOUT_MS })

const START =
  'cat /proc/sys/kernel/random/uuid > /tmp/mark; echo $$ > /tmp/pid; echo started; exec sleep 100000'

/** Machines have the program and the modules of a template that processes were saved with. */
// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(
  `a template that was saved while it ran${missing ? `: ${missing}` : ''}`,
  () => {
    let server: ServerProcess
    let scratch: string
    const { disksDir, templatesDir } = new MicrovmLayout('/', testDataDir)
    /** Disks and booted templates of images. Other tests make theirs meanwhile. */
    const shared = () =>
      [disksDir, templatesDir].flatMap((path) =>
        readdirSync(path)
          .filter((name) => name.includes(SCRATCH))
          .map((name) => join(path, name)),
      )
    let before: string[] = []

    beforeAll(async () => {
      scratch = mkdtempSync(join(tmpdir(), 'dormouse-images-'))
      server = await ServerProcess.start({})
      before = shared()
      writeLayout(join(scratch, 'image'), [makeLayer(busybox)], { Env: ['PATH=/bin'], WorkingDir: '/srv' })
    })
    afterAll(async () => {
      await server?.cleanUp()
      if (scratch !== undefined) rmSync(scratch, { recursive: true })
      for (const path of shared()) if (!before.includes(path)) rmSync(path, { recursive: true })
    })

    const build = (name: string, more: object) =>
      buildTemplate(server, { name, image: `oci:${join(scratch, 'image')}`, ...more })
    const create = (template: string, isolation: string) =>
      server.call('/v1/sandboxes', {
        json: { template, isolation, limits: { memoryBytes: 512 * 1024 ** 2 } },
      })
    /** What its program left behind, whether it still runs, and whether the module is there without an import. */
    async function look({ id }: { id: string }) {
      const who = { id, key: server.key }
      const code = 'cat /tmp/mark; cat /proc/$(cat /tmp/pid)/cmdline'
      const { stdout } = await run(server, who, code)
      const [mark = '', running = ''] = stdout.trim().split('\n')
      const python = { ...who, language: 'python' as const }
      const { stdout: imported } = await run(server, python, 'import sys; print("colorsys" in sys.modules)')
      return { mark, running: running.replaceAll('\0', ' ').trim(), imported: imported.trim() }
    }

    test('starts machines with its program and modules, from one snapshot', async () => {
      const ready = { log: 'started' }
      expect(await build('warm', { preload: ['colorsys'], start: START, ready })).toMatchObject({
        state: 'ready',
      })
      const looks = []
      for (const isolation of ['process', 'microvm', 'microvm']) {
        const { body } = await create('warm', isolation)
        expect(body).toMatchObject({ isolation, state: 'running' })
        looks.push(await look(body))
        await server.ok(`/v1/sandboxes/${body.id}`, { method: 'DELETE' })
      }
      const [processes, first, second] = looks
      for (const each of looks) expect(each).toMatchObject({ running: 'sleep 100000', imported: 'True' })
      expect(first?.mark).toMatch(/^[0-9a-f-]{36}$/)
      expect(second?.mark).toBe(first?.mark)
      // Memory of processes does not come along: the program has started again.
      expect(first?.mark).not.toBe(processes?.mark)
    })

    // Skip: one more boot, which takes long under emulation.
    test.skipIf(!IS_WHOLE)(
      'whose program does not start in a machine says so, and leaves nothing',
      async () => {
        const start = 'test -e /dev/vdb && exit 3; exec sleep 100000'
        expect(await build('picky', { start })).toMatchObject({ state: 'ready' })
        const sandboxes = await server.ok('/v1/sandboxes')
        const { status, body } = await create('picky', 'microvm')
        expect(status).toBe(503)
        expect(body.error).toMatchObject({
          code: 'burrow_start_failed',
          message: expect.stringMatching(/"picky" could not be prepared in a virtual machine: .*exit code 3/),
        })
        expect(await server.ok('/v1/sandboxes')).toEqual(sandboxes)
        expect((await create('picky', 'process')).body).toMatchObject({ state: 'running' })
      },
    )
  },
)
