import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeLayer, writeLayout } from '../images/make-image.ts'
import { busyboxLayer } from '../images/test-images.ts'
import type { ServerProcess } from '../server/server-process.ts'
import type { Place } from './run-program.ts'

/** What a reader has after `./dormouse up` in the clone at `root`: `dormouse` on the PATH, and an image as `web.tar`. */
export async function readersPlace(
  root: string,
  { url, key, factory }: ServerProcess,
): Promise<Place & AsyncDisposable> {
  const cwd = await mkdtemp(join(tmpdir(), 'dormouse-docs-'))
  const bin = join(cwd, '.bin')
  await mkdir(bin)
  await symlink(join(root, 'dormouse'), join(bin, 'dormouse'))
  writeImage(cwd)
  return {
    cwd,
    env: {
      PATH: `${bin}:${process.env['PATH']}`,
      HOME: factory.stateDir,
      LANG: 'C.UTF-8',
      PYTHONPATH: join(root, 'python'),
      PYTHONDONTWRITEBYTECODE: '1',
      DORMOUSE_DATA: factory.stateDir,
      DORMOUSE_URL: url,
      DORMOUSE_API_KEY: key,
    },
    [Symbol.asyncDispose]: () => rm(cwd, { recursive: true, force: true }),
  }
}

/** An image of a static busybox, which needs no registry. */
function writeImage(cwd: string): void {
  const layout = join(cwd, '.image')
  const greeting = makeLayer([{ path: 'srv/greeting', content: 'hello\n' }])
  writeLayout(layout, [busyboxLayer, greeting], { Env: ['PATH=/bin'] })
  execFileSync('tar', ['-C', layout, '-cf', join(cwd, 'web.tar'), '.'])
}
