/** Where `./dormouse test` has put CRIU and the templates. */
export const testDataDir = process.env['DORMOUSE_DATA'] ?? '/var/lib/dormouse'
