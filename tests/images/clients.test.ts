import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Dormouse, Template } from 'dormouse'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { useCommandLine } from '../cli/command-line.ts'
import { PYTHON, runPython } from '../python-sdk/run-python.ts'
import { writeLayout } from './make-image.ts'
import { Registry, TESTER } from './registry.ts'
import { busyboxLayer, run } from './test-images.ts'

const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

const locked = await Registry.start(TESTER)
const cli = useCommandLine({
  images: { registriesConf: locked.conf },
  builds: { atOnce: 4, memoryBytes: 512 * 1024 ** 2 },
})
let scratch: string
let project: string
let archive: string
let layout: string
/** Stages of an image that takes a password; only the first one can be built. */
let stages: string
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'dormouse-clients-'))
  layout = join(scratch, 'layout')
  writeLayout(layout, [busyboxLayer], { Env: ['PATH=/bin', 'FROM_ARCHIVE=yes'] })
  archive = join(scratch, 'saved.tar')
  const destination = `docker-archive:${archive}:saved:1`
  execFileSync('skopeo', ['--insecure-policy', 'copy', `oci:${layout}`, destination], { stdio: 'pipe' })
  const image = locked.push('private:1', [busyboxLayer], { Env: ['PATH=/bin'] }, { creds: 'tester:secret' })
  stages = `FROM ${image} AS one\nRUN echo one > /stage\nFROM one\nRUN exit 9\n`
  project = join(scratch, 'project')
  mkdirSync(join(project, 'app'), { recursive: true })
  writeFileSync(join(project, 'app/kept.txt'), 'kept\n')
  writeFileSync(join(project, 'app/secret.env'), 'never sent\n')
  writeFileSync(join(project, '.dockerignore'), '**/*.env\n')
})
afterAll(async () => {
  await locked.cleanUp()
  rmSync(scratch, { recursive: true, force: true })
})

async function inside(template: string, code: string): Promise<string> {
  const { id } = await cli.server.ok('/v1/sandboxes', { json: { template } })
  const { stdout, stderr } = await run(cli.server, { id, key: cli.server.key }, code)
  await cli.server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  return stdout + stderr
}

test('dormouse template create sends an archive of docker save, and shows the log with its times', async () => {
  const { status, stdout, stderr } = await cli.run(['template', 'create', 'saved', '--image', archive])
  expect({ status, stdout }).toEqual({ status: 0, stdout: 'saved\n' })
  expect(stderr).toMatch(/^ +\d+\.\d ==> importing upload:/m)
  expect(stderr).toMatch(/^ +\d+\.\d {5}imported in \d+\.\d s$/m)
  expect(await inside('saved', 'echo $FROM_ARCHIVE')).toBe('yes\n')
})

test('dormouse template create sends the directory of an OCI layout, and says when there is no image', async () => {
  const { status, stdout } = await cli.run(['template', 'create', 'of-layout', '--image', layout])
  expect({ status, stdout }).toEqual({ status: 0, stdout: 'of-layout\n' })
  for (const image of [join(scratch, 'none.tar'), project])
    expect((await cli.run(['template', 'create', 'none', '--image', image])).stderr).toContain('is no image')
})

test('dormouse template create --login logs in to the registry that it names, and to no other', async () => {
  writeFileSync(join(project, 'Dockerfile'), stages)
  const create = (name: string, user: string, env = {}) =>
    cli.run(['template', 'create', name, '--dockerfile', project, '--target', 'one', '--login', user], {
      env,
    })
  const unnamed = await create('login-1', 'tester')
  expect(unnamed.stderr).toContain('DORMOUSE_REGISTRY_PASSWORD')
  const env = { DORMOUSE_REGISTRY_PASSWORD: 'secret' }
  const elsewhere = await create('login-1', 'tester@elsewhere.example', env)
  expect(elsewhere.stderr).toContain(`images come from ${locked.host}`)
  expect(await create('login-1', `tester@${locked.host}`, env)).toMatchObject({ status: 0 })
  expect(await inside('login-1', 'cat /stage')).toBe('one\n')
})

test('dormouse template debug starts in the state before the step that failed', async () => {
  const dockerfile = 'FROM template:saved\nCOPY app /app\nRUN echo before > /before\nRUN cat /app/missing\n'
  writeFileSync(join(project, 'Dockerfile'), dockerfile)
  const built = await cli.run(['template', 'create', 'broken', '--dockerfile', project])
  expect(built.status).not.toBe(0)
  expect(built.stderr).toContain('[3/3] RUN cat /app/missing')
  expect(built.stderr).toContain('dormouse template debug broken')
  const { status, stdout, stderr } = await cli.run(['template', 'debug', 'broken'])
  expect(status).toBe(0)
  expect(stderr).toContain('in the state before `RUN cat /app/missing`')
  const created = await cli.run(['create', '--template', 'broken'])
  expect(created.stderr).toMatch(/The template "broken" could not be built: RUN cat .*template show broken/s)
  const id = stdout.trim()
  expect((await cli.run(['exec', id, '--', 'sh', '-c', 'cat /before; ls /app'])).stdout).toBe(
    'before\nkept.txt\n',
  )
  await cli.run(['rm', id])
})

test('the builder of the TypeScript SDK builds, and its log comes line by line', async () => {
  const client = new Dormouse({ url: cli.server.url, apiKey: cli.server.key })
  const builder = Template.fromTemplate('saved')
    .run('echo built > /built')
    .copy('app', '/app')
    .env({ MODE: 'one' })
    .start('exec httpd -f -p 8000 -h /app')
    .ready(8000)
  const lines: string[] = []
  const options = { context: project, onLog: (line: string) => lines.push(line) }
  expect(await client.templates.build('typescript', builder, options)).toMatchObject({ state: 'ready' })
  expect(lines).toContain('[1/2] RUN echo built > /built')
  const request = 'printf "GET /kept.txt HTTP/1.0\\r\\n\\r\\n" | nc 127.0.0.1 8000'
  expect(await inside('typescript', `echo $MODE; cat /built; ls /app; ${request}`)).toMatch(
    /^one\nbuilt\nkept\.txt\n[\s\S]*\nkept\n$/,
  )
})

test('the builder of the TypeScript SDK sends an archive, logs in and builds one stage', async () => {
  const { templates } = new Dormouse({ url: cli.server.url, apiKey: cli.server.key })
  for (const [name, path] of [
    ['ts-archive', archive],
    ['ts-layout', layout],
  ] as const)
    expect(await templates.build(name, Template.fromArchive(path).run('echo more > /more'))).toMatchObject({
      state: 'ready',
    })
  expect(await inside('ts-archive', 'echo $FROM_ARCHIVE; cat /more')).toBe('yes\nmore\n')
  expect(await inside('ts-layout', 'echo $FROM_ARCHIVE; cat /more')).toBe('yes\nmore\n')
  for (const path of [project, join(scratch, 'none.tar')])
    await expect(templates.build('none', Template.fromArchive(path))).rejects.toThrow('is no image')
  // Without its upload it would be built on the template `python`.
  expect(() => Template.fromArchive(archive).request('x')).toThrow('the image is on this machine')

  const builder = Template.fromDockerfile(stages).target('one').login('tester', 'secret', locked.host)
  expect(await templates.build('ts-login', builder, { context: project })).toMatchObject({ state: 'ready' })
  expect(await inside('ts-login', 'cat /stage')).toBe('one\n')
})

test('the builder of the Python SDK does the same with archives, logins and stages', async () => {
  const program = `
import sys
from dormouse import Client, DormouseError, Template
archive, layout, project, stages, registry = sys.argv[1:]
templates = Client().templates
for name, path in ("py-archive", archive), ("py-layout", layout):
    assert templates.build(name, Template.from_archive(path).run("echo more > /more")).state == "ready"
for path in project, "/none.tar":
    try:
        templates.build("none", Template.from_archive(path))
        raise AssertionError(path)
    except DormouseError as error:
        assert "is no image" in str(error), error
try:
    Template.from_archive(archive).request("x")
    raise AssertionError
except DormouseError as error:
    assert "the image is on this machine" in str(error), error
builder = Template.from_dockerfile(stages).target("one").login("tester", "secret", registry)
assert templates.build("py-login", builder, context=project).state == "ready"
image = stages.split()[1]
for login in (("tester", "secret"), ("tester", "secret", registry), [("tester", "secret", registry)]):
    templates.create("py-auth", image=image, registry_auth=login)
    assert templates.wait("py-auth").state == "ready"
    templates.delete("py-auth")
`
  const env = { DORMOUSE_URL: cli.server.url, DORMOUSE_API_KEY: cli.server.key }
  const args = [archive, layout, project, stages, locked.host]
  const { code, output } = await runPython(PYTHON, ['-c', program, ...args], env)
  expect(code, output).toBe(0)
  for (const template of ['py-archive', 'py-layout'])
    expect(await inside(template, 'echo $FROM_ARCHIVE; cat /more')).toBe('yes\nmore\n')
  expect(await inside('py-login', 'cat /stage')).toBe('one\n')
})

test('the builder of the Python SDK does the same', async () => {
  const program = `
import sys
from dormouse import Client, Template
builder = Template.from_template("saved").run("echo built > /built").copy("app", "/app").env({"MODE": "two"})
lines = []
template = Client().templates.build("python-sdk", builder, context=sys.argv[1], on_log=lines.append)
assert template.state == "ready", template
assert "[1/2] RUN echo built > /built" in lines, lines
`
  const env = { DORMOUSE_URL: cli.server.url, DORMOUSE_API_KEY: cli.server.key }
  const { code, output } = await runPython(PYTHON, ['-c', program, project], env)
  expect(code, output).toBe(0)
  expect(await inside('python-sdk', 'echo $MODE; cat /built; ls /app')).toBe('two\nbuilt\nkept.txt\n')
})
