import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'
import { type Entry, makeLayer } from './make-image.ts'
import { Registry } from './registry.ts'
import { busyboxLayer, compile, run, upload } from './test-images.ts'

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

let registry: Registry
let server: ServerProcess
let tenant: string
let image: string
beforeAll(async () => {
  registry = await Registry.start()
  image = registry.push('base:1', [busyboxLayer], { Env: ['PATH=/bin', 'FROM_IMAGE=yes'] })
  server = await ServerProcess.start({
    images: { registriesConf: registry.conf },
    builds: { atOnce: 4, memoryBytes: 512 * 1024 ** 2 },
  })
  tenant = (await server.ok('/v1/keys', { json: { name: 'tenant', scopes: ['run', 'read'] } })).key
})
afterAll(async () => {
  await server?.cleanUp()
  await registry?.cleanUp()
})

const build = (template: { name: string; [field: string]: unknown }) =>
  buildTemplate(server, template, tenant)
const context = (entries: readonly Entry[]) => upload(server, tenant, makeLayer(entries))

async function inside(template: string, code: string): Promise<string> {
  const { id } = await server.ok('/v1/sandboxes', { json: { template }, key: tenant })
  const { stdout, stderr } = await run(server, { id, key: tenant }, code)
  await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE', key: tenant })
  return stdout + stderr
}

/** All that is supported, in one. */
const everything = () => `
ARG BASE=${image}
FROM $BASE AS build
ARG WORD=default
RUN echo "built with $WORD" > /artifact && echo $FROM_IMAGE >> /artifact
FROM ${image} AS unused
RUN exit 9
FROM build AS child
RUN echo "child with $WORD" > /child
FROM scratch AS empty
COPY --from=build /artifact /only
FROM ${image}
ENV APP=/app MODE="two words"
WORKDIR $APP/work
COPY --chown=web:1000 app ..
COPY notes-*.md /notes/
COPY --from=build --chown=1000 /artifact ./
COPY --from=empty /only /only
COPY --from=child /child /child
COPY linked linked/deep.txt /linked/
RUN ["/bin/sh", "-c", "echo exec $MODE > /exec"]
RUN echo \\
    # a comment between
    continued > /continued
RUN <<EOF
echo first > /heredoc
echo second >> /heredoc
EOF
USER web
RUN id -u > /tmp/uid; pwd > /tmp/pwd
HEALTHCHECK CMD test -e /exec
CMD ["sleep", "1000"]
`

test('a Dockerfile with stages, arguments, copies and users becomes a template', async () => {
  const files = await context([
    { path: 'app' },
    { path: 'app/main.txt', content: 'main\n' },
    { path: 'app/sub' },
    { path: 'app/sub/deep.txt', content: 'deep\n' },
    { path: 'notes-1.md', content: 'one\n' },
    { path: 'notes-2.md', content: 'two\n' },
    { path: 'secret.txt', content: 'not copied\n' },
    { path: 'linked', link: 'app/sub' },
  ])
  const template = await build({
    name: 'whole',
    dockerfile: everything(),
    context: files,
    buildArgs: { WORD: 'an argument' },
  })
  expect(template.error).toBeUndefined()
  expect(template).toMatchObject({ state: 'ready', image })
  const code = `cat /app/main.txt /app/sub/deep.txt /notes/notes-1.md /notes/notes-2.md artifact /only /exec /heredoc \\
    /child /linked/deep.txt /continued /tmp/uid /tmp/pwd; stat -c %u:%g /app/main.txt artifact /notes/notes-1.md; pwd; id -u; echo $MODE; ls /`
  const said = await inside('whole', code)
  expect(said).toContain(
    'main\ndeep\none\ntwo\nbuilt with an argument\nyes\nbuilt with an argument\nyes\nexec two words\nfirst\nsecond\nchild with an argument\ndeep\ncontinued\n',
  )
  expect(said).toContain('1000\n/app/work\n1000:1000\n1000:1000\n0:0\n/app/work\n1000\ntwo words\n')
  expect(said).not.toContain('secret')
})

test('PATH has a value from the start, and a stage has SHELL and ENV of the stage below it', async () => {
  const bare = registry.push('bare:1', [busyboxLayer])
  const dockerfile = `FROM ${bare} AS base
ENV PATH=/x:$PATH
RUN mkdir /x
SHELL ["/bin/busybox", "sh", "-c"]
FROM base
RUN echo "$0 $PATH" > /said
CMD ["echo listening; exec sleep 1000"]
ENTRYPOINT ["/bin/sh", "-c"]
`
  const template = await build({ name: 'paths', dockerfile, ready: { log: 'listening' } })
  expect(template.error).toBeUndefined()
  const path = '/x:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  expect(await inside('paths', 'cat /said; echo $PATH')).toBe(`sh ${path}\n${path}\n`)
})

test('a program of one stage becomes all that an image from scratch has', async () => {
  const source =
    '#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("static"); fflush(stdout); for (;;) pause(); }\n'
  const program = compile(source, 'gcc', '-static')
  const files = await context([{ path: 'server', content: program, mode: 0o755 }])
  const dockerfile = `FROM ${image} AS build
COPY server /out/server
FROM scratch
ENV PATH=/opt:$PATH
COPY --from=build /out/server /opt/server
WORKDIR /data
USER 1000
ENTRYPOINT ["server"]
`
  const template = await build({ name: 'lone', dockerfile, context: files, ready: { log: 'static' } })
  expect(template.error).toBeUndefined()
  const programs = 'for at in /proc/[0-9]*; do read -r -d "" name < $at/cmdline && echo "$name"; done'
  const said = (await inside('lone', `${programs}; pwd; echo /*; echo $UID $PATH`)).split('\n')
  expect(said).toEqual(expect.arrayContaining(['server', '/data']))
  expect(said).toContainEqual(expect.stringMatching(/^1000 \/opt:\/usr\/local\/sbin:/))
  expect(said.find((line) => line.includes('/opt '))?.split(' ')).not.toContain('/bin')
})

test('steps are cached: after a change only the steps from there on run', async () => {
  const dockerfile = `FROM ${image}\nRUN echo expensive > /expensive\nCOPY app.txt /app.txt\nRUN cat /app.txt > /copied\n`
  const first = await build({
    name: 'cached',
    dockerfile,
    context: await context([{ path: 'app.txt', content: '1' }]),
  })
  expect(first.state).toBe('ready')
  expect(first.logTail).not.toContain('cached')
  await server.ok('/v1/templates/cached', { method: 'DELETE', key: tenant })
  const changed = await context([
    { path: 'app.txt', content: '2' },
    { path: 'other.txt', content: 'not copied' },
  ])
  const second = await build({ name: 'cached', dockerfile, context: changed })
  expect(second.logTail.match(/ {4}cached/g)).toHaveLength(1)
  expect(await inside('cached', 'cat /expensive /copied')).toBe('expensive\n2')
})

test('ADD unpacks archives, with the owner that it names; COPY does not', async () => {
  const packed = gzipSync(makeLayer([{ path: 'sub' }, { path: 'sub/file', content: 'unpacked\n' }]))
  const files = await context([
    { path: 'app.tar.gz', content: packed },
    { path: 'plain.txt', content: 'plain\n' },
  ])
  const dockerfile = `FROM ${image}
ADD --chown=1000:1000 app.tar.gz /added/
ADD --chown=web plain.txt /added/
COPY app.tar.gz /copied/
`
  expect(await build({ name: 'added', dockerfile, context: files })).toMatchObject({ state: 'ready' })
  const code =
    'cat /added/sub/file /added/plain.txt; stat -c %u:%g /added/sub/file /added/plain.txt; ls /copied'
  expect(await inside('added', code)).toBe('unpacked\nplain\n1000:1000\n1000:1000\napp.tar.gz\n')
})

test('a cache mount keeps its files between builds and out of the template', async () => {
  const step = 'RUN --mount=type=cache,target=/var/cache/things'
  const first = `FROM ${image}\n${step} echo kept > /var/cache/things/file\n`
  expect(await build({ name: 'mounts', dockerfile: first })).toMatchObject({ state: 'ready' })
  expect(await inside('mounts', 'ls -a /var/cache/things')).toBe('.\n..\n')
  const second = `FROM ${image}\n${step} cat /var/cache/things/file > /copied
WORKDIR /srv
USER web
RUN --mount=type=cache,target=own,uid=1000,mode=0700 echo > own/file && stat -c %u:%a own > /tmp/owner
`
  expect((await build({ name: 'mounts-2', dockerfile: second })).error).toBeUndefined()
  expect(await inside('mounts-2', 'cat /copied /tmp/owner')).toBe('kept\n1000:700\n')
})

test('a failed step is named, and a sandbox can start in the state before it', async () => {
  const dockerfile = `FROM ${image}\nENV STAGE=late\nRUN echo before > /before\nRUN echo trouble >&2; exit 3\n`
  const template = await build({ name: 'broken', dockerfile })
  expect(template).toMatchObject({
    state: 'failed',
    failedStep: 'RUN echo trouble >&2; exit 3',
    error: expect.stringContaining('exit code 3. Its last output: trouble'),
  })
  const { id } = await server.ok('/v1/templates/broken/debug', { json: {}, key: tenant })
  const { stdout } = await run(server, { id, key: tenant }, 'cat /before; echo $STAGE')
  expect(stdout).toBe('before\nlate\n')
  expect((await server.call('/v1/templates/broken', { key: tenant })).body.state).toBe('failed')

  const copying = { dockerfile: `FROM ${image}\nCOPY nothing /x\n`, context: await context([]) }
  expect(await build({ name: 'no-file', ...copying })).toMatchObject({
    failedStep: 'COPY nothing /x',
    error: expect.stringMatching(/^COPY nothing \/x: The context has no "nothing"\. .*\.dockerignore/),
  })
})

test('the log can be followed line by line while a build runs', async () => {
  const dockerfile = `FROM ${image}\nRUN echo one; sleep 1; echo two\n`
  await server.ok('/v1/templates', { json: { name: 'followed', dockerfile }, key: tenant })
  const answer = await server.fetch('/v1/templates/followed/log', { key: tenant })
  const lines = (await answer.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const texts = lines.map(({ text }: { text: string }) => text)
  expect(texts).toEqual(expect.arrayContaining(['[1/1] RUN echo one; sleep 1; echo two', 'one', 'two']))
  expect(lines.map(({ seq }: { seq: number }) => seq)).toEqual(lines.map((_: unknown, at: number) => at))
  expect(texts.some((text: string) => /^ {4}done in \d/.test(text))).toBe(true)
})

describe('a Dockerfile that cannot be built is refused at once', () => {
  test.each([
    ['FROM a AS', 'Line 1'],
    ['RUN x', 'before the first FROM'],
    ['FROM x\nRUN --mount=type=secret,id=a cat /a', 'only type=cache'],
    ['FROM x\nADD https://example.org/a /a', 'cannot download'],
    ['FROM x\nONBUILD RUN a', 'ONBUILD is not supported'],
    ['# nothing', 'no FROM'],
    ['FROM Web', 'is not the name of an image'],
  ])('%j', async (dockerfile, reason) => {
    const { status, body } = await server.call('/v1/templates', {
      json: { name: 'never', dockerfile },
      key: tenant,
    })
    expect(status).toBe(400)
    expect(body.error.message).toContain(reason)
    expect((await server.call('/v1/templates/never', { key: tenant })).status).toBe(404)
  })
})

describe('a program that is started', () => {
  test('is ready at its port and runs in every new sandbox', async () => {
    const steps = [{ run: 'echo hello > /srv/index.html' }, { workdir: '/srv' }, { env: { NAME: 'a $b' } }]
    const start = 'echo "$NAME" > /srv/name; exec httpd -f -p 8000'
    const template = await build({ name: 'web', image, steps, start, ready: { port: 8000 } })
    expect(template.error).toBeUndefined()
    const said = await inside(
      'web',
      'printf "GET /index.html HTTP/1.0\\r\\n\\r\\n" | nc 127.0.0.1 8000; cat /srv/name',
    )
    expect(said).toContain('hello\n')
    expect(said).toContain('a $b\n')
  })

  test('is what start says, in place of ENTRYPOINT and CMD', async () => {
    const dockerfile = `FROM ${image}\nENTRYPOINT ["/bin/false"]\nCMD ["argument"]\n`
    const start = 'echo "mine $#"; exec sleep 1000'
    expect(await build({ name: 'by-start', dockerfile, start, ready: { log: 'mine 0' } })).toMatchObject({
      state: 'ready',
    })
  })

  test('is ready by a line of its output or by a command; without start it is the command of the image', async () => {
    const dockerfile = `FROM ${image}\nENTRYPOINT ["/bin/sh", "-c"]\nCMD ["echo listening; sleep 1000"]\n`
    expect(await build({ name: 'by-log', dockerfile, ready: { log: 'listening' } })).toMatchObject({
      state: 'ready',
    })
    const start = 'sleep 1; echo > /srv/done; sleep 1000'
    const ready = { command: 'test -e /srv/done' }
    expect(await build({ name: 'by-command', image, start, ready })).toMatchObject({ state: 'ready' })
  })

  test('is ready when the HEALTHCHECK of the image passes, if nothing else says when', async () => {
    // Longer than the two seconds that a program without any sign of being ready has to stay alive.
    const start = 'sleep 3; echo > /srv/done; sleep 1000'
    const dockerfile = `FROM ${image}\nHEALTHCHECK --interval=1s CMD test -e /srv/done\n`
    expect(await build({ name: 'by-health', dockerfile, start })).toMatchObject({ state: 'ready' })
    expect(await inside('by-health', 'ls /srv')).toContain('done')
  })

  test('is the command of an image with a HEALTHCHECK, without start and ready', async () => {
    const serving = registry.push('serving:1', [busyboxLayer], {
      Env: ['PATH=/bin'],
      Cmd: ['sh', '-c', 'sleep 3; echo > /srv/done; exec sleep 1000'],
      Healthcheck: { Test: ['CMD-SHELL', 'test -e /srv/done'] },
    })
    const template = await build({ name: 'serving', image: serving })
    expect(template).toMatchObject({ state: 'ready', logTail: expect.stringContaining('HEALTHCHECK NONE') })
    expect(await inside('serving', 'ls /srv')).toContain('done')

    const failing = `FROM ${serving}\nCMD ["sh", "-c", "exit 5"]\n`
    expect(await build({ name: 'failing', dockerfile: failing })).toMatchObject({
      state: 'failed',
      failedStep: 'START sh -c exit 5',
    })
    const unchecked = `${failing}HEALTHCHECK NONE\n`
    expect(await build({ name: 'unchecked', dockerfile: unchecked })).toMatchObject({ state: 'ready' })
  })

  test('fails the build when it ends or is not ready in time', async () => {
    const ended = await build({ name: 'ended', image, start: 'echo no luck; exit 4', ready: { port: 1 } })
    expect(ended).toMatchObject({
      state: 'failed',
      error: expect.stringContaining('exit code 4'),
      failedStep: 'START echo no luck; exit 4',
    })
    const { id } = await server.ok('/v1/templates/ended/debug', { json: {}, key: tenant })
    expect((await run(server, { id, key: tenant }, 'echo $FROM_IMAGE; ls /bin/httpd')).stdout).toBe(
      'yes\n/bin/httpd\n',
    )
    const slow = await build({ name: 'slow', image, start: 'sleep 99', ready: { port: 1, timeoutMs: 300 } })
    expect(slow).toMatchObject({ state: 'failed', error: expect.stringContaining('not ready after 300 ms') })
  })
})

test('steps on a template run on its files', async () => {
  const steps = [{ run: 'echo $0 > /shell' }, { copy: ['a.txt'], to: '/a/', chmod: '600' }]
  const files = await context([{ path: 'a.txt', content: 'a\n' }])
  expect(await build({ name: 'on-python', from: 'python', steps, context: files })).toMatchObject({
    state: 'ready',
  })
  expect(
    await inside('on-python', 'cat /shell /a/a.txt; stat -c %a /a/a.txt; python3 -c "import numpy"'),
  ).toBe('/bin/sh\na\n600\n')
})
