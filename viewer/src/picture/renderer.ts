// Draws planes: with WebGL2, or without it where a browser has none.

import type { Plane } from "./planes";
import type { Scale } from "./scale";
import { place } from "./scale";

/** A plane and where its corners are on the screen, in CSS pixels. */
export interface Layer {
  plane: Plane;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export interface Style {
  scale: Scale;
  colors: Uint8Array;
  isDark: boolean;
}

export interface Renderer {
  readonly canvas: HTMLCanvasElement;
  resize(width: number, height: number, pixels: number): void;
  draw(layers: Layer[], style: Style): void;
  destroy(): void;
}

/** Two greys of the hatching for missing elements: light and dark theme. */
export const HATCH: Record<"light" | "dark", [number, number]> = { light: [222, 200], dark: [58, 74] };

/** Stands for missing in textures: some drivers do not tell NaN from other numbers. */
const MISSING = -3.4e38;
const LARGEST = 3.2e38;
/** Textures that are kept for films and going back. */
const TEXTURES = 24;

const VERTEX = `#version 300 es
uniform vec4 corners; // left, top, right, bottom
out vec2 at;
void main() {
  at = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  gl_Position = vec4(mix(corners.xy, corners.zw, at), 0, 1);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
precision highp sampler2D;
uniform sampler2D plane;
uniform sampler2D colors;
uniform int kind;
uniform bool photograph;
uniform vec2 ends;
uniform vec2 hatch;
uniform float stripe;
in vec2 at;
out vec4 color;
float place(float v) {
  if (kind == 1) {
    float low = log(max(ends.x, 1e-37));
    return v <= 0. ? 0. : (log(v) - low) / (log(ends.y) - low);
  }
  if (kind == 2) {
    float c = max(abs(ends.x), abs(ends.y)) * 1e-3;
    return 0.5 + 0.5 * asinh(v / c) / asinh(1000.);
  }
  return (v - ends.x) / (ends.y - ends.x);
}
void main() {
  ivec2 size = textureSize(plane, 0);
  vec4 v = texelFetch(plane, min(ivec2(at * vec2(size)), size - 1), 0);
  if (v.r < -3.3e38) {
    color = vec4(vec3(mod(gl_FragCoord.x + gl_FragCoord.y, stripe) < stripe * .35 ? hatch.y : hatch.x), 1);
  } else if (photograph) {
    color = vec4((v.rgb - ends.x) / (ends.y - ends.x), 1);
  } else {
    float t = ends.y > ends.x ? clamp(place(v.r), 0., 1.) : .5;
    color = texelFetch(colors, ivec2(int(t * 255. + .5), 0), 0);
  }
}`;

class WithWebGl implements Renderer {
  private textures = new Map<Plane, WebGLTexture>();
  private program: WebGLProgram;
  private colors: WebGLTexture;
  private known: Uint8Array | null = null;
  private pixels = 1;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private gl: WebGL2RenderingContext,
  ) {
    this.program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
      const shader = gl.createShader(kind);
      if (!shader) throw new Error("no shader");
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    if (!gl.getProgramParameter(this.program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(this.program) ?? "");
    this.colors = gl.createTexture();
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
  }

  resize(width: number, height: number, pixels: number): void {
    this.canvas.width = Math.round(width * pixels);
    this.canvas.height = Math.round(height * pixels);
    this.pixels = pixels;
  }

  draw(layers: Layer[], style: Style): void {
    const { gl, program } = this;
    const width = this.canvas.width / this.pixels;
    const height = this.canvas.height / this.pixels;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.useProgram(program);
    const where = (name: string): WebGLUniformLocation | null => gl.getUniformLocation(program, name);
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, this.colors);
    if (this.known !== style.colors) {
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, style.colors);
      sharp(gl);
      this.known = style.colors;
    }
    gl.uniform1i(where("plane"), 0);
    gl.uniform1i(where("colors"), 1);
    gl.uniform1i(where("kind"), style.scale.kind === "log" ? 1 : style.scale.kind === "symlog" ? 2 : 0);
    gl.uniform2f(where("ends"), style.scale.low, style.scale.high);
    const [light, dark] = HATCH[style.isDark ? "dark" : "light"];
    gl.uniform2f(where("hatch"), light / 255, dark / 255);
    gl.uniform1f(where("stripe"), 8 * this.pixels);
    gl.activeTexture(gl.TEXTURE0);
    for (const layer of layers) {
      gl.bindTexture(gl.TEXTURE_2D, this.texture(layer.plane));
      gl.uniform1i(where("photograph"), layer.plane.channels === 3 ? 1 : 0);
      const x = (at: number): number => (at / width) * 2 - 1;
      const y = (at: number): number => 1 - (at / height) * 2;
      gl.uniform4f(where("corners"), x(layer.left), y(layer.top), x(layer.right), y(layer.bottom));
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    }
  }

  private texture(plane: Plane): WebGLTexture {
    const { gl } = this;
    const kept = this.textures.get(plane);
    if (kept) {
      this.textures.delete(plane);
      this.textures.set(plane, kept);
      return kept;
    }
    const numbers = new Float32Array(plane.data.length);
    for (let n = 0; n < numbers.length; n += 1) {
      const value = plane.data[n] ?? NaN;
      numbers[n] = Number.isNaN(value) ? MISSING : Math.min(Math.max(value, -LARGEST), LARGEST);
    }
    const made = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, made);
    const [inside, outside] = plane.channels === 3 ? [gl.RGB32F, gl.RGB] : [gl.R32F, gl.RED];
    gl.texImage2D(gl.TEXTURE_2D, 0, inside, plane.width, plane.height, 0, outside, gl.FLOAT, numbers);
    sharp(gl);
    this.textures.set(plane, made);
    for (const [old, texture] of this.textures) {
      if (this.textures.size <= TEXTURES) break;
      gl.deleteTexture(texture);
      this.textures.delete(old);
    }
    return made;
  }

  destroy(): void {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

function sharp(gl: WebGL2RenderingContext): void {
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
}

/** Draws each plane into a small canvas, and stretches the canvas. */
class WithoutWebGl implements Renderer {
  private drawn = new WeakMap<Plane, { key: string; canvas: HTMLCanvasElement }>();
  private pixels = 1;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private context: CanvasRenderingContext2D,
  ) {}

  resize(width: number, height: number, pixels: number): void {
    this.canvas.width = Math.round(width * pixels);
    this.canvas.height = Math.round(height * pixels);
    this.pixels = pixels;
  }

  draw(layers: Layer[], style: Style): void {
    const { context } = this;
    context.setTransform(this.pixels, 0, 0, this.pixels, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.imageSmoothingEnabled = false;
    for (const { plane, left, right, top, bottom } of layers) {
      context.save();
      context.translate(left, top);
      context.scale((right - left) / plane.width, (bottom - top) / plane.height);
      context.drawImage(this.picture(plane, style), 0, 0);
      context.restore();
    }
  }

  private picture(plane: Plane, style: Style): HTMLCanvasElement {
    const key = JSON.stringify([style.scale, style.isDark, [...style.colors.subarray(0, 12)]]);
    const kept = this.drawn.get(plane);
    if (kept?.key === key) return kept.canvas;
    const canvas = document.createElement("canvas");
    canvas.width = plane.width;
    canvas.height = plane.height;
    const image = new ImageData(plane.width, plane.height);
    const [light, dark] = HATCH[style.isDark ? "dark" : "light"];
    for (let n = 0; n < plane.width * plane.height; n += 1) {
      const value = plane.data[n * plane.channels] ?? NaN;
      for (let part = 0; part < 3; part += 1) {
        const t = place(style.scale, plane.channels === 3 ? (plane.data[n * 3 + part] ?? NaN) : value);
        const index = Math.round(Math.min(Math.max(t, 0), 1) * 255);
        const color = plane.channels === 3 ? index : (style.colors[index * 4 + part] ?? 0);
        const isDark = (Math.floor(n / plane.width) + (n % plane.width)) % 3 === 0;
        image.data[n * 4 + part] = Number.isNaN(value) ? (isDark ? dark : light) : color;
      }
      image.data[n * 4 + 3] = 255;
    }
    canvas.getContext("2d")?.putImageData(image, 0, 0);
    this.drawn.set(plane, { key, canvas });
    return canvas;
  }

  destroy(): void {
    this.canvas.width = 0;
  }
}

export function renderer(): Renderer {
  const canvas = document.createElement("canvas");
  try {
    const gl = canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true });
    if (gl) return new WithWebGl(canvas, gl);
  } catch {
    // The driver refuses the shader.
  }
  const plain = document.createElement("canvas");
  const context = plain.getContext("2d");
  if (!context) throw new Error("this browser draws no pictures");
  return new WithoutWebGl(plain, context);
}
