import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
beforeEach(async () => {
  await server.clear()
  await server.ok('/v1/sandboxes', { json: { name: 'new', idleTimeoutMs: 0, network: { mode: 'none' } } })
})
afterAll(() => server?.cleanUp())

const python = (code: string) => server.run('new', code)
const shell = async (code: string) => {
  const json = { code, language: 'bash' }
  const { exitCode, stdout, stderr } = await server.ok('/v1/sandboxes/new/run', { json })
  if (exitCode !== 0) throw new Error(stdout + stderr)
  return stdout as string
}

describe('a new sandbox', () => {
  test('has the programs and libraries that the documentation lists', async () => {
    for (const program of ['wget', 'jq', 'make', 'gcc', 'vim', 'git', 'curl', 'rsync'])
      expect(await shell(`command -v ${program}`)).toContain(program)
    await shell('echo "int main(void) { return 0; }" > /tmp/a.c && gcc -o /tmp/a /tmp/a.c && /tmp/a')
    // Not imported ahead: each module in the kernel of the template makes every wake slower.
    expect(await python('import sys; print("sklearn" in sys.modules)')).toBe('False\n')
    for (const module of ['requests', 'openpyxl', 'tqdm', 'sklearn.linear_model', 'pandas', 'scipy', 'sympy'])
      expect(await python(`import ${module}; print(1)`)).toBe('1\n')
    const fit = 'sklearn.linear_model.LinearRegression().fit([[0], [1]], [1, 3]).predict([[2]])[0]'
    expect(await python(`print(round(${fit}))`)).toBe('5\n')
  })

  test('lets packages link manual pages, as those of Java do', async () => {
    await shell(
      'ln -s /etc/hostname /usr/share/man/man1/java.1 && ln -s /etc/hostname /usr/share/man/man8/java.8',
    )
  })

  test('has an identity for git', async () => {
    await shell('git init -q /tmp/r && cd /tmp/r && echo x > a && git add a && git commit -qm one')
    expect(await shell('cd /tmp/r && git log --format="%an <%ae> %D"')).toBe(
      'Dormouse Sandbox <sandbox@dormouse.invalid> HEAD -> main\n',
    )
  })

  test('leaves no bytecode beside what it imports, however Python was started', async () => {
    await shell('mkdir -p /tmp/m && for name in a b c; do echo x=1 > /tmp/m/mod_$name.py; done')
    await python('import sys; sys.path.insert(0, "/tmp/m"); import mod_a')
    await shell('cd /tmp/m && python3 -c "import mod_b"')
    const json = { args: ['python3', '-c', 'import mod_c'], cwd: '/tmp/m', wait: true }
    expect(await server.ok('/v1/sandboxes/new/processes', { json })).toMatchObject({ exitCode: 0 })
    expect(await shell('ls /tmp/m')).toBe('mod_a.py\nmod_b.py\nmod_c.py\n')
    expect(await shell(`su - user -c 'echo $PYTHONDONTWRITEBYTECODE'`)).toBe('1\n')
  })

  // A repository in a directory: tests do not reach the internet.
  const publish = (version: string) => `set -e
rm -rf /tmp/deb; mkdir -p /tmp/deb/DEBIAN /srv/repo; cd /srv/repo
cat > /tmp/deb/DEBIAN/control <<END
Package: tiny
Version: ${version}
Architecture: all
Maintainer: nobody <nobody@dormouse.invalid>
Description: a package
END
dpkg-deb -b /tmp/deb tiny_${version}.deb
{ cat /tmp/deb/DEBIAN/control
  echo "Filename: ./tiny_${version}.deb"
  echo "Size: $(stat -c %s tiny_${version}.deb)"
  echo "SHA256: $(sha256sum tiny_${version}.deb | cut -d' ' -f1)"; } > Packages
rm -rf /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/repo ./' > /etc/apt/sources.list
`

  test('installs with apt without an update, and later when the package lists are old', async () => {
    await shell(publish('1'))
    expect(await shell('ls /var/lib/apt/lists')).not.toContain('Packages')
    expect(await shell('apt-cache policy tiny')).toContain('Candidate: 1')
    await shell('apt-get install -y tiny')
    await shell(publish('2'))
    expect(await shell('apt-get install -y tiny')).toContain('newest version (1)')
    await shell('touch -d "2 days ago" /var/lib/apt/dormouse-updated')
    await shell('apt -o DPkg::Lock::Timeout=1 -y install tiny')
    expect(await shell('dpkg-query -W tiny')).toBe('tiny\t2\n')
    // Two at once, and again no lists.
    await shell('rm -rf /var/lib/apt/lists/*; cd /tmp; apt-get download tiny & apt-cache show tiny; wait %1')
    await expect(shell('apt-get install -y no-such-package')).rejects.toThrow('Unable to locate')
    await expect(shell('apt-get frobnicate')).rejects.toThrow('Invalid operation')
  })

  test('installs with pip as root, without a flag or a warning', async () => {
    const install = `cd /tmp && python3 - <<END
import zipfile
with zipfile.ZipFile("tiny-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("tiny.py", "answer = 42")
    wheel.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
    wheel.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("tiny-1.dist-info/RECORD", "")
END
pip install --no-index ./tiny-1-py3-none-any.whl 2>&1`
    expect(await shell(install)).not.toMatch(/warning|notice|externally/i)
    expect(await python('import tiny; print(tiny.answer)')).toBe('42\n')
  })
})
