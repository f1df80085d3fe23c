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

/** No index, configuration or cache. Debian's packages of httpx, websockets and hatchling are used instead. */
const env = {
  PATH: '/usr/bin:/bin',
  HOME: home,
  LANG: 'C.UTF-8',
  PIP_NO_INDEX: '1',
  PIP_CONFIG_FILE: '/dev/null',
  PIP_NO_CACHE_DIR: '1',
  PIP_DISABLE_PIP_VERSION_CHECK: '1',
  PYTHONDONTWRITEBYTECODE: '1',
  PYTHONPATH: '/usr/lib/python3/dist-packages',
  // pip reads this variable as the value of `build_isolation`: 0 turns isolation off.
  PIP_NO_BUILD_ISOLATION: '0',
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
  // Skip: Debian has venv in a package of its own, which nothing else needs.
  test.skipIf(!hasVenv)('works as its README says', { timeout: 240_000 }, () => {
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
    // Other packages of this machine may miss dependencies; only ours matter here.
    const checked = spawnSync(join(home, 'venv/bin/pip'), ['check'], { cwd: home, env, encoding: 'utf8' })
    expect(checked.stdout).not.toContain('dormouse')
    const shown = run(join(home, 'venv/bin/pip'), ['show', 'dormouse'], home)
    expect(shown).toContain('Requires: httpx, websockets\n')
    // An editable install copies nothing.
    run(join(home, 'venv/bin/pip'), ['install', '--quiet', '--editable', sdk], home)
    const where = run(
      join(home, 'venv/bin/python'),
      ['-c', 'import dormouse; print(dormouse.__file__)'],
      home,
    )
    expect(where.trim()).toBe(join(sdk, 'dormouse/__init__.py'))
  })

  test('a wheel and a source archive are complete, and the same each time', () => {
    const build = [
      'import sys, hashlib, os, pathlib, tarfile, zipfile',
      'import hatchling.build',
      'target = os.getcwd()',
      `os.chdir(${JSON.stringify(sdk)})`,
      'def built(function):',
      '    path = pathlib.Path(target, function(target))',
      '    return path, hashlib.sha256(path.read_bytes()).hexdigest()',
      'for function in (hatchling.build.build_wheel, hatchling.build.build_sdist):',
      '    assert built(function) == built(function)',
      'with zipfile.ZipFile(built(hatchling.build.build_wheel)[0]) as wheel:',
      '    print("\\n".join(wheel.namelist()))',
      'with tarfile.open(built(hatchling.build.build_sdist)[0]) as archive:',
      '    print("\\n".join(archive.getnames()))',
    ].join('\n')
    const names = run('/usr/bin/python3', ['-c', build], home).split('\n')
    expect(names.filter((name) => name.startsWith('dormouse/')).sort()).toEqual(files)
    expect(names.filter((name) => name.includes('.dist-info/')).length).toBe(3)
    for (const needed of [...files, 'pyproject.toml', 'README.md', 'PKG-INFO'])
      expect(names).toContain(`dormouse-${version}/${needed}`)
    // Python imports from a zip archive, and a wheel is one.
    const wheel = `dormouse-${version}-py3-none-any.whl`
    const imports = `import sys; sys.path.insert(0, "${wheel}"); import dormouse; print(dormouse.__version__)`
    expect(run('/usr/bin/python3', ['-c', imports], home)).toBe(`${version}\n`)
  })
})
