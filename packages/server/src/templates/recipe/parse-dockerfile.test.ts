// biome-ignore-all lint/suspicious/noTemplateCurlyInString: Dockerfiles have them.
import { describe, expect, test } from 'vitest'
import { asWord, expandWord } from './dockerfile-text.ts'
import { type DockerfileOptions, parseDockerfile } from './parse-dockerfile.ts'

/** The instructions of the only stage, without what the log shows. */
function read(instructions: string, options: DockerfileOptions = {}) {
  const [stage] = parseDockerfile(`FROM x\n${instructions}\n`, options).stages
  return stage?.instructions.map(({ shown: _shown, ...rest }) => rest)
}
const script = (instruction: string) => read(instruction)?.[0]

describe('a RUN over several lines', () => {
  test.each([
    ['RUN install \\\n  one \\\n  # a comment\n\n  two', 'install   one   two'],
    ['RUN a && \\  \r\n b', 'a &&  b'],
    ['RUN echo "#1" # not a comment of the Dockerfile', 'echo "#1" # not a comment of the Dockerfile'],
    ['RUN <<EOF\n# kept\na \\\n  b\n\nc\nEOF', '# kept\na \\\n  b\n\nc'],
    ['RUN <<-"END"\n\ta\n\t\tb\n\tEND', 'a\nb'],
    ['RUN python3 <<EOF\nprint(1)\nEOF', 'python3 <<EOF\nprint(1)\nEOF'],
    ['RUN cat <<A >/a && cat <<B >/b\n1\nA\n2\nB', 'cat <<A >/a && cat <<B >/b\n1\nA\n2\nB'],
  ])('%j', (text, expected) => {
    expect(read(`${text}\nUSER after`)).toMatchObject([
      { command: { script: expected } },
      { type: 'user', user: 'after' },
    ])
  })

  test('has its flags, however they are laid out', () => {
    const text =
      'RUN --mount=type=cache,target=/a \\\n  # why\n  --mount=type=cache,id=b,dst=b,uid=1000,mode=0700 \\\n  make'
    expect(script(text)).toEqual({
      type: 'run',
      command: { script: 'make' },
      caches: [
        { target: '/a', id: '/a' },
        { target: 'b', id: 'b', uid: 1000, mode: 0o700 },
      ],
    })
  })
})

describe('variables', () => {
  test.each([
    ['a$b', 'a1'],
    ['"a $b"', 'a 1'],
    ["'a $b'", 'a $b'],
    ["pre'$b'post", 'pre$bpost'],
    ['a\\$b \\"', 'a$b "'],
    ['"\\$b \\n \\""', '$b \\n "'],
    ['"it\'s $b"', "it's 1"],
    ['${b}c ${none} ${none:-d $b} ${none:-${b}}', '1c  d 1 1'],
    ['${b:+e} ${none:+e} ${empty:-f} ${empty-f} ${empty+g}', 'e  f  g'],
    ['$ $1 $$', '$ $1 $$'],
  ])('%s is %s', (word, expected) => {
    expect(expandWord(word, { b: '1', empty: '' })).toBe(expected)
  })

  test('any text can be written as a word', () => {
    const text = 'a $b "c" \'d\' \\e ${f}'
    expect(expandWord(asWord(text), { b: '1', f: '2' })).toBe(text)
  })

  test.each([
    ['${none:?gone}', 'The variable none is not set: gone'],
    ['${b%suffix}', 'not supported'],
  ])('%s is refused', (word, reason) => {
    expect(() => expandWord(word, { b: '1' })).toThrow(reason)
  })

  test.each([
    ['ENV A=1 B="two words" C=three\\ words', { A: '1', B: '"two words"', C: 'three\\ words' }],
    ['ENV A two words', { A: 'two words' }],
    ['ENV A=1 \\\n # a comment\n B=2', { A: '1', B: '2' }],
  ])('%j', (text, values) => {
    expect(script(text)).toMatchObject({ values })
  })

  test('a value of the caller is used as it is', () => {
    expect(read('ARG A=default B', { buildArgs: { A: 'pa$s "word"' } })).toEqual([
      { type: 'arg', name: 'A', value: asWord('pa$s "word"') },
      { type: 'arg', name: 'B', value: undefined },
    ])
  })

  test('the platform is known, as with BuildKit', () => {
    const architecture = process.arch === 'x64' ? 'amd64' : process.arch
    expect(read('ARG TARGETARCH')).toMatchObject([{ name: 'TARGETARCH', value: architecture }])
    const { stages } = parseDockerfile('FROM --platform=$BUILDPLATFORM a:$TARGETARCH', {})
    expect(stages).toMatchObject([{ base: { image: `a:${architecture}` } }])
    expect(() => parseDockerfile('FROM --platform=linux/riscv64 a', {})).toThrow('is for linux/riscv64')
  })
})

test.each([
  ['ENV A', 'needs NAME=VALUE'],
  ['ENV A=1 B', 'needs NAME=VALUE'],
  ['WORKDIR', 'needs a directory'],
  ['USER', 'needs a user'],
  ['COPY --parents a b', '--parents, which is not supported'],
  ['CMD --help', '--help, which is not supported'],
  ['RUN --mount=type=cache,target=/a,from=x a', '"from", which is not supported'],
  ['RUN --mount=type=cache,target=/a,uid=me a', '"me", which is no number'],
  ['RUN <<EOF\n#!/usr/bin/env python3\nEOF', 'RUN python3 <<EOF'],
  ['RUN <<EOF bash\nEOF', 'RUN bash <<EOF'],
  ['RUN <<EOF\nno end', 'heredoc that is not supported'],
])('%j is refused with its line', (text, reason) => {
  expect(() => read(text)).toThrow('Line 2 of the Dockerfile: ')
  expect(() => read(text)).toThrow(reason)
})
