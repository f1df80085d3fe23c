import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { isAsSaid } from '../docs/is-as-said.ts'
import { readBlocks } from '../docs/read-blocks.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const sdk = join(root, 'python')
const home = mkdtempSync(join(tmpdir(), 'dormouse-install-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

/** No index, no configuration and no cache: what is there is the clone alone. */
const env = {
  PATH: '/usr/bin:/bin',
  HOME: home,
  LANG: 'C.UTF-8',
  PIP_NO_INDEX: '1',
  PIP_CONFIG_FILE: '/dev/null',
  PIP_NO_CACHE_DIR: '1',
  PIP_DISABLE_PIP_VERSION_CHECK: '1',
  PYTHONDONTWRITEBYTECODE: '1',
}

function run(program: string, args: string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, env, encoding: 'utf8' })
  expect(status, `${stdout}${stderr}`).toBe(0)
  return stdout
}

const version = /^version = "(.*)"$/m.exec(readFileSync(join(sdk, 'pyproject.toml'), 'utf8'))?.[1]
const files = readdirSync(join(sdk, 'dormouse'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.py') || path === 'py.typed')
  .map((path) => join('dormouse', path))
  .sort()

describe('installing the Python SDK', () => {
  const readme = readFileSync(join(sdk, 'README.md'), 'utf8')
  const sessions = readBlocks(readme).filter(({ language }) => language === 'console')

  const hasVenv = spawnSync('/usr/bin/python3', ['-c', 'import ensurepip, venv']).status === 0
  // Skip: Debian has venv in a package of its own, which is not needed for anything else.
  test.skipIf(!hasVenv)('as its README says, without any index', { timeout: 240_000 }, () => {
    const [session, ...others] = sessions.filter(({ notRun }) => notRun === undefined)
    expect(others).toEqual([])
    for (const typed of session?.code.split(/^\$ /m).slice(1) ?? []) {
      const [command = '', ...said] = typed.trimEnd().split('\n')
      const shown = run('bash', ['-ec', command], root).split('\n').slice(0, -1)
      expect(isAsSaid(shown, said), `${command}\n${shown.join('\n')}`).toBe(true)
    }
    const site = join(home, 'venv/lib')
    const installed = readdirSync(site, { recursive: true, encoding: 'utf8' }).map((path) =>
      path.replace(/^.*?site-packages\//, ''),
    )
    expect(installed.filter((path) => /^dormouse\/.*(\.py|py\.typed)$/.test(path)).sort()).toEqual(files)
    run(join(home, 'venv/bin/pip'), ['check'], home)
    // For who works on it: nothing is copied.
    run(join(home, 'venv/bin/pip'), ['install', '--quiet', '--editable', sdk], home)
    const where = run(
      join(home, 'venv/bin/python'),
      ['-c', 'import dormouse; print(dormouse.__file__)'],
      home,
    )
    expect(where.trim()).toBe(join(sdk, 'dormouse/__init__.py'))
  })

  test('a wheel and a source archive have all of it, and are the same each time', () => {
    const build = [
      'import sys, hashlib, pathlib, tarfile, zipfile',
      `sys.path.insert(0, ${JSON.stringify(join(sdk, 'tools'))})`,
      'import build_backend',
      'def built(function):',
      '    path = pathlib.Path(function("."))',
      '    return path.name, hashlib.sha256(path.read_bytes()).hexdigest()',
      'assert built(build_backend.build_wheel) == built(build_backend.build_wheel)',
      'with zipfile.ZipFile(built(build_backend.build_wheel)[0]) as wheel:',
      '    print("\\n".join(wheel.namelist()))',
      'with tarfile.open(built(build_backend.build_sdist)[0]) as archive:',
      '    print("\\n".join(archive.getnames()))',
    ].join('\n')
    const names = run('/usr/bin/python3', ['-c', build], home).split('\n')
    expect(names.filter((name) => name.startsWith('dormouse/')).sort()).toEqual(files)
    expect(names.filter((name) => name.includes('.dist-info/')).length).toBe(3)
    for (const needed of [...files, 'pyproject.toml', 'README.md', 'tools/build_backend.py', 'PKG-INFO'])
      expect(names).toContain(`dormouse-${version}/${needed}`)
    // From the wheel itself, as a zip archive is a place to import from.
    const wheel = `dormouse-${version}-py3-none-any.whl`
    const imports = `import sys; sys.path.insert(0, "${wheel}"); import dormouse; print(dormouse.__version__)`
    expect(run('/usr/bin/python3', ['-c', imports], home)).toBe(`${version}\n`)
  })
})
