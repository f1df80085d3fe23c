import { describe, expect, test } from 'vitest'
import { useSsh } from './ssh-client.ts'

const bench = useSsh()

async function shell() {
  const terminal = bench.client.terminal(bench.key, ['box@127.0.0.1'])
  terminal.type(`PS1='prompt'"> "\r`)
  await terminal.shows(/prompt> $/)
  return terminal
}

describe('a shell over SSH', () => {
  test('has a terminal of the same kind and size, follows its size, and ends with its status', async () => {
    const terminal = await shell()
    terminal.type('tty; stty size; echo $TERM $LC_TIME $0; shopt -q login_shell && echo lo""gin\r')
    await terminal.shows(/\/dev\/pts\/\d+\r\n24 80\r\nxterm-256color C.UTF-8 \S*bash\r\nlogin\r\n/)
    terminal.resize(50, 132)
    terminal.type('until [ "$(stty size)" = "50 132" ]; do sleep 0.05; done; echo res""ized\r')
    await terminal.shows(/resized\r\n/)
    terminal.type('exit 7\r')
    expect(await terminal.status()).toBe(7)
  })

  test('hands Ctrl-C and Ctrl-Z to what runs in the foreground', async () => {
    const terminal = await shell()
    terminal.type(`sh -c 'echo be""gun; exec sleep 1000'\r`)
    await terminal.shows(/begun/)
    terminal.type('\x03')
    await terminal.shows(/prompt> $/)
    terminal.type(`sh -c 'echo ag""ain; exec sleep 1000'\r`)
    await terminal.shows(/again/)
    terminal.type('\x1a')
    await terminal.shows(/Stopped[\s\S]*prompt> $/)
    terminal.type('kill -KILL %1; echo ki""lled\r')
    await terminal.shows(/killed\r\n[\s\S]*prompt> $/)
    terminal.type('exit 3\r')
    expect(await terminal.status()).toBe(3)
  })

  test('shows a program on the whole screen, as bytes, and hangs up when the client leaves', async () => {
    const terminal = await shell()
    terminal.type("printf '\\377\\n' | cat -v; echo $$ > /tmp/shell; printf 'hell\\303\\266\\n'\r")
    await terminal.shows(/M-\^\?\r\nhellö\r\n/)
    terminal.type('\r~.')
    expect(await terminal.status()).toBe(255)
    await expect
      .poll(async () => (await bench.exec('kill -0 $(cat /tmp/shell)')).code, { timeout: 20_000 })
      .toBe(1)
  })

  test('runs one command in a terminal', async () => {
    const terminal = bench.client.terminal(bench.key, [
      '-t',
      'box@127.0.0.1',
      '[ -t 0 ] && stty size; exit 5',
    ])
    await terminal.shows(/24 80\r\n/)
    expect(await terminal.status()).toBe(5)
  })
})
