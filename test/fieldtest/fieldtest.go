// Package fieldtest gives fields of API objects values, so that a test of a copy checks each field, including fields of later Kubernetes releases.
package fieldtest

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Fill sets v to a value that is not its zero value, recursively. It enters at most two structs that contain each other, and leaves maps, slices and pointers
// in them empty.
func Fill(v reflect.Value) { fill(v, 0) }

func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth)
		fill(value, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[resource.Quantity]() {
			v.Set(reflect.ValueOf(resource.MustParse("1")))
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && depth < 2 && f.Type() != reflect.TypeFor[[]corev1.ResourceClaim]() && f.Kind() != reflect.Map && f.Kind() != reflect.Slice && f.Kind() != reflect.Pointer {
				fill(f, depth+1)
			}
		}
	}
}
